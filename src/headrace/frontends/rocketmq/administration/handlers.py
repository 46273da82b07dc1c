"""The functions that answer operators' requests, by code."""

from typing import TYPE_CHECKING

from headrace.frontends.rocketmq.administration import (
    broker_stats,
    client_states,
    cluster_state,
    group_settings,
    group_state,
    kv_configs,
    message_queries,
    offset_clones,
    resets,
    resumed_halves,
    topic_state,
)
from headrace.frontends.rocketmq.topics import update_topic
from headrace.wire.rocketmq.codes import RequestCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.frontends.rocketmq.answers import RemotingAnswer
    from headrace.frontends.rocketmq.call import RemotingCall

ADMIN_HANDLERS: "dict[int, Callable[[RemotingCall], RemotingAnswer | None]]" = {
    RequestCode.QUERY_MESSAGE: message_queries.query_messages,
    RequestCode.VIEW_MESSAGE_BY_ID: message_queries.view_message,
    RequestCode.QUERY_CONSUME_QUEUE: message_queries.query_queue,
    RequestCode.GET_PRODUCER_CONNECTION_LIST: group_state.producer_connections,
    RequestCode.UPDATE_AND_CREATE_TOPIC: update_topic,
    RequestCode.UPDATE_BROKER_CONFIG: cluster_state.update_broker_config,
    RequestCode.GET_BROKER_CONFIG: cluster_state.broker_config,
    RequestCode.GET_BROKER_RUNTIME_INFO: cluster_state.runtime_info,
    RequestCode.GET_ALL_CONSUMER_OFFSET: group_state.all_offsets,
    RequestCode.PUT_KV_CONFIG: kv_configs.put_config,
    RequestCode.GET_KV_CONFIG: kv_configs.get_config,
    RequestCode.DELETE_KV_CONFIG: kv_configs.delete_config,
    RequestCode.GET_KVLIST_BY_NAMESPACE: kv_configs.list_configs,
    RequestCode.GET_BROKER_CLUSTER_INFO: cluster_state.cluster_info,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: group_settings.update_group,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: group_state.all_groups,
    RequestCode.GET_TOPIC_STATS_INFO: topic_state.topic_stats,
    RequestCode.GET_CONSUMER_CONNECTION_LIST: group_state.consumer_connections,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: cluster_state.wipe_writes,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: topic_state.topic_list,
    RequestCode.DELETE_SUBSCRIPTIONGROUP: group_state.delete_group,
    RequestCode.GET_CONSUME_STATS: group_state.consume_stats,
    RequestCode.DELETE_TOPIC_IN_BROKER: topic_state.delete_topic,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: topic_state.forget_topic,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: resets.reset_offset,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: client_states.consumer_status,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: group_state.groups_of_topic,
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: cluster_state.nothing_to_clean,
    RequestCode.GET_CONSUMER_RUNNING_INFO: client_states.running_info,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: client_states.consume_directly,
    RequestCode.CLONE_GROUP_OFFSET: offset_clones.clone_offsets,
    RequestCode.VIEW_BROKER_STATS_DATA: broker_stats.broker_stats,
    RequestCode.CLEAN_UNUSED_TOPIC: cluster_state.nothing_to_clean,
    RequestCode.GET_BROKER_CONSUME_STATS: group_state.all_consume_stats,
    RequestCode.GET_NAMESRV_CONFIG: cluster_state.name_server_config,
    RequestCode.RESUME_CHECK_HALF_MESSAGE: resumed_halves.resume_half,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: cluster_state.add_writes,
    RequestCode.GET_TOPIC_CONFIG: topic_state.topic_settings,
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: group_state.one_group,
    RequestCode.SET_MESSAGE_REQUEST_MODE: group_settings.set_request_mode,
}
