"""Topics as mqadmin and the dashboard ask: names, settings, offsets of queues, deletion."""

from functools import partial
from typing import TYPE_CHECKING

from headrace.frontends.rocketmq.answers import RemotingAnswer, RequestRefused
from headrace.model.errors import ErrorCode
from headrace.operations.permissions import AdminOperation
from headrace.operations.topics import NO_ID, TopicRef, delete_topics
from headrace.posix.awaiting import called_back
from headrace.security.authorizer import Operation
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.fastjson import FastJson, Keyed, encode_body
from headrace.wire.rocketmq.requests import Fields
from headrace.wire.rocketmq.topic_configs import TopicConfig, topic_config_json
from headrace.wire.rocketmq.topic_names import RETRY_PREFIX

if TYPE_CHECKING:
    from headrace.frontends.rocketmq.call import RemotingCall
    from headrace.frontends.rocketmq.serving import ServedTopic
    from headrace.log.log import Log

DELETE_SECONDS = 10.0


def topic_list(call: "RemotingCall") -> RemotingAnswer:
    """Answer GET_ALL_TOPIC_LIST_FROM_NAMESERVER (206): the topics that the client may describe.

    Each group has a retry topic in the list, also before it exists: tools find groups by it.
    """
    broker = call.broker
    names = {name for name in broker.topic_names() if _may_describe(call, name)}
    context = call.context()
    names |= {
        RETRY_PREFIX + group
        for group in broker.known_groups()
        if context.permits(AdminOperation.DESCRIBE_GROUP_CONFIGS, group, told=False)
    }
    listed: list[FastJson] = [*sorted(names)]
    return RemotingAnswer(body=encode_body({"topicList": listed}))


def _may_describe(call: "RemotingCall", name: str) -> bool:
    topic = call.broker.topic_if_any(name)
    return topic is not None and call.broker.may(call.identity, Operation.DESCRIBE, topic)


def _described(call: "RemotingCall", name: str) -> "ServedTopic":
    """Return a topic that the client may describe. Raises RequestRefused."""
    topic = call.broker.topic_if_any(name)
    if topic is None:
        text = f"No topic in this broker. topic: {name}"
        raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, text)
    call.broker.require_topic(call.identity, Operation.DESCRIBE, topic)
    return topic


def topic_settings(call: "RemotingCall") -> RemotingAnswer:
    """Answer GET_TOPIC_CONFIG (351)."""
    topic = _described(call, Fields(call.command).text("topic"))
    config = topic.config or TopicConfig()
    return RemotingAnswer(body=encode_body(topic_config_json(topic.name, config, topic.queues)))


def topic_stats(call: "RemotingCall") -> None:
    """Answer GET_TOPIC_STATS_INFO (202): offsets and last times of the queues, and the rate."""
    name = Fields(call.command).text("topic")
    topic = call.broker.topic_if_any(name)
    if topic is None:
        text = f"topic[{name}] not exist"
        raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, text)
    call.broker.require_topic(call.identity, Operation.DESCRIBE, topic)
    call.work(_stats(call, topic))


async def _stats(call: "RemotingCall", topic: "ServedTopic") -> RemotingAnswer:
    broker = call.broker
    pairs: list[tuple[FastJson, FastJson]] = []
    for queue_id in range(topic.write_queues):
        partition = broker.partition(topic, queue_id)
        newest = partial(_newest_ms, partition.log)
        last_ms = await called_back(partial(broker.broker.disk.run, newest))
        queue: FastJson = {
            "brokerName": broker.name, "queueId": queue_id, "topic": topic.name,
        }  # fmt: skip
        state: FastJson = {
            "lastUpdateTimestamp": last_ms,
            "maxOffset": partition.readable_end(True),
            "minOffset": partition.log_start_offset,
        }
        pairs.append((queue, state))
    rate = broker.traffic.stored_rate(topic.info.name).per_second
    body = encode_body({"offsetTable": Keyed(tuple(pairs)), "topicPutTps": round(rate, 2)})
    return RemotingAnswer(body=body)


def _newest_ms(log: "Log") -> int:
    """Return the newest record's time in ms, 0 without one. On any thread."""
    found = log.max_timestamp_offset()
    return 0 if found is None else max(int(found[0]), 0)


def delete_topic(call: "RemotingCall") -> RemotingAnswer | None:
    """Answer DELETE_TOPIC_IN_BROKER (215); one that does not exist is deleted, too."""
    name = Fields(call.command).text("topic")
    topic = call.broker.topic_if_any(name)
    if topic is None:
        return RemotingAnswer()
    call.work(_deleted(call, topic))
    return None


async def _deleted(call: "RemotingCall", topic: "ServedTopic") -> RemotingAnswer:
    (deleted,) = await delete_topics(
        call.context(), [TopicRef(topic.info.name, NO_ID)], seconds=DELETE_SECONDS
    )
    error = deleted.error
    if error is not None and error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise error
    return RemotingAnswer()


def forget_topic(call: "RemotingCall") -> RemotingAnswer:
    """Answer DELETE_TOPIC_IN_NAMESRV (216): routes end with the topic (215)."""
    Fields(call.command).text("topic")
    return RemotingAnswer()
