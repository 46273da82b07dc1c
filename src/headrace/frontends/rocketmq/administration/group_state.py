"""State of groups, as mqadmin and the dashboard ask: settings, members, offsets and lag."""

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from headrace.frontends.rocketmq.answers import RemotingAnswer, RequestRefused
from headrace.frontends.rocketmq.pulling.plans import queue_of
from headrace.frontends.rocketmq.pulling.reading import ReadLimits, read_messages
from headrace.model.errors import ApiError, ErrorCode, HeadraceError
from headrace.operations.permissions import AdminOperation
from headrace.posix.awaiting import called_back
from headrace.security.authorizer import Operation
from headrace.shards.group_partition import java_string_hash
from headrace.subscriptions.members import TopicSubscription
from headrace.subscriptions.tag_filters import ALL, TAG_TYPE, tags_of
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.fastjson import FastJson, Keyed, encode_body
from headrace.wire.rocketmq.group_configs import GroupConfig, group_config_json
from headrace.wire.rocketmq.requests import Fields
from headrace.wire.rocketmq.stored_messages import decode_messages
from headrace.wire.rocketmq.topic_names import rocketmq_name

if TYPE_CHECKING:
    from headrace.frontends.rocketmq.call import RemotingCall, RemotingClientSide
    from headrace.frontends.rocketmq.serving import ServedBroker, ServedTopic

GROUPS_MAX = 2000
"""Groups of one answer, if the client asks for no other number."""
_ONE_MESSAGE = ReadLimits(1, 1)


def all_groups(call: "RemotingCall") -> RemotingAnswer:
    """Answer GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201): a page of all groups' settings."""
    fields = Fields(call.command)
    first = max(fields.number("groupSeq", 0), 0)
    count = fields.number("maxGroupNum", GROUPS_MAX)
    call.require_admin(AdminOperation.DESCRIBE_CLUSTER_CONFIGS)
    groups = call.broker.known_groups()
    table: dict[str, FastJson] = {
        group: group_config_json(_config(call.broker, group))
        for group in groups[first : first + max(count, 0)]
    }
    version: FastJson = {
        "counter": len(groups), "stateVersion": 0, "timestamp": call.broker.started_ms,
    }  # fmt: skip
    body = encode_body(
        {"dataVersion": version, "forbiddenTable": {}, "subscriptionGroupTable": table}
    )
    return RemotingAnswer(fields={"totalGroupNum": str(len(groups))}, body=body)


def one_group(call: "RemotingCall") -> RemotingAnswer:
    """Answer GET_SUBSCRIPTIONGROUP_CONFIG (352)."""
    group = Fields(call.command).text("group")
    call.require_admin(AdminOperation.DESCRIBE_GROUP_CONFIGS, group)
    if group not in call.broker.known_groups():
        text = f"No group in this broker. group: {group}"
        raise RequestRefused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, text)
    return RemotingAnswer(body=encode_body(group_config_json(_config(call.broker, group))))


def _config(broker: "ServedBroker", group: str) -> GroupConfig:
    return broker.configs.groups.get(group) or GroupConfig(group)


# Members


def consumer_connections(call: "RemotingCall") -> RemotingAnswer:
    """Answer GET_CONSUMER_CONNECTION_LIST (203): the members and their subscriptions."""
    group = Fields(call.command).text("consumerGroup")
    broker = call.broker
    broker.require_group(call.identity, group, Operation.DESCRIBE)
    members = sorted(broker.members.members(group), key=lambda member: member.client_id)
    if not members:
        text = f"the consumer group[{group}] not online"
        raise RequestRefused(ResponseCode.CONSUMER_NOT_ONLINE, text)
    connections = [_connection(member.connection) for member in members]
    newest = members[-1].subscription
    table: dict[str, FastJson] = {
        topic: subscription_json(found)
        for topic, found in sorted(broker.members.topics(group).items())
    }
    return RemotingAnswer(
        body=encode_body(
            {
                "connectionSet": connections,
                "consumeFromWhere": newest.consume_from,
                "consumeType": newest.consume_type,
                "messageModel": "BROADCASTING" if newest.broadcasting else "CLUSTERING",
                "subscriptionTable": table,
            }
        )
    )


def _connection(client: "RemotingClientSide") -> FastJson:
    return {
        "clientAddr": client.address,
        "clientId": client.client_id,
        "language": client.language,
        "version": client.version,
    }


def producer_connections(call: "RemotingCall") -> RemotingAnswer:
    """Answer GET_PRODUCER_CONNECTION_LIST (204): the live producers of a group."""
    group = Fields(call.command).text("producerGroup")
    call.require_admin(AdminOperation.DESCRIBE_CLUSTER_CONFIGS)
    clients = sorted(call.broker.producers.members(group), key=lambda each: each.client_id)
    if not clients:
        text = f"the producer group[{group}] not exist"
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, text)
    connections = [_connection(client) for client in clients]
    return RemotingAnswer(body=encode_body({"connectionSet": connections}))


def subscription_json(topic: TopicSubscription) -> dict[str, FastJson]:
    """Return a subscription as RocketMQ writes it."""
    by_tags = topic.expression_type == TAG_TYPE and topic.expression != ALL
    tags = sorted(tags_of(topic.expression)) if by_tags else []
    codes: list[FastJson] = [java_string_hash(tag) for tag in tags]
    names: list[FastJson] = list(tags)
    return {
        "classFilterMode": False,
        "codeSet": codes,
        "expressionType": topic.expression_type,
        "subString": topic.expression,
        "subVersion": topic.version,
        "tagsSet": names,
        "topic": topic.topic,
    }


def groups_of_topic(call: "RemotingCall") -> RemotingAnswer:
    """Answer QUERY_TOPIC_CONSUME_BY_WHO (300): the groups with offsets or members."""
    name = Fields(call.command).text("topic")
    broker = call.broker
    topic = broker.topic_if_any(name)
    groups: list[FastJson] = []
    if topic is not None:
        broker.require_topic(call.identity, Operation.DESCRIBE, topic)
        groups += [
            group
            for group in broker.known_groups()
            if topic.info.name in broker.commits().offsets(group)
            or broker.members.subscription(group, name) is not None
        ]
    return RemotingAnswer(body=encode_body({"groupList": groups}))


# Offsets


def consume_stats(call: "RemotingCall") -> None:
    """Answer GET_CONSUME_STATS (208): a group's offsets, the ends of its queues, and its rate."""
    fields = Fields(call.command)
    group, wanted = fields.text("consumerGroup"), fields.text("topic", "")
    call.broker.require_group(call.identity, group, Operation.DESCRIBE)
    call.work(_stats(call, group, wanted))


async def _stats(call: "RemotingCall", group: str, wanted: str) -> RemotingAnswer:
    queues: list[_QueueStats] = []
    rate = 0.0
    for topic in _topics_of(call.broker, group):
        if wanted in ("", topic.name):
            queues += await _topic_stats(call, group, topic)
            rate += call.broker.traffic.pulled_rate(group, topic.info.name).per_second
    body = encode_body({"consumeTps": round(rate, 2), "offsetTable": _keyed(queues)})
    return RemotingAnswer(body=body)


class _QueueStats(NamedTuple):
    """A group's place in one queue."""

    queue: FastJson
    end: int
    offset: int
    last_ms: int
    """When the last consumed message was stored; 0: it is deleted, or none was consumed."""


def _keyed(queues: Iterable[_QueueStats]) -> FastJson:
    pairs: list[tuple[FastJson, FastJson]] = []
    for each in queues:
        state: FastJson = {
            "brokerOffset": each.end,
            "consumerOffset": each.offset,
            "lastTimestamp": each.last_ms,
            "pullOffset": each.offset,
        }
        pairs.append((each.queue, state))
    return Keyed(tuple(pairs))


def _topics_of(broker: "ServedBroker", group: str) -> list["ServedTopic"]:
    """Return the topics of which a group has offsets, but those that its members left."""
    found = []
    subscribed = broker.members.topics(group)
    for kafka_name in sorted(broker.commits().offsets(group)):
        name = rocketmq_name(kafka_name)
        topic = None if name is None else broker.topic_if_any(name)
        if topic is not None and (not subscribed or topic.name in subscribed):
            found.append(topic)
    return found


async def _topic_stats(call: "RemotingCall", group: str, topic: "ServedTopic") -> list[_QueueStats]:
    broker = call.broker
    found: list[_QueueStats] = []
    for queue_id in range(topic.read_queues):
        end = broker.partition(topic, queue_id).readable_end(True)
        offset = broker.offsets.read(group, topic.info.name, queue_id) or 0
        last_ms = await _stored_ms(call, topic, queue_id, offset - 1) if offset > 0 else 0
        queue: FastJson = {
            "brokerName": broker.name, "queueId": queue_id, "topic": topic.name,
        }  # fmt: skip
        found.append(_QueueStats(queue, end, offset, last_ms))
    return found


async def _stored_ms(call: "RemotingCall", topic: "ServedTopic", queue_id: int, offset: int) -> int:
    """Return when a message was stored, in ms since 1970; 0: it is deleted or never existed."""
    broker = call.broker
    partition = broker.partition(topic, queue_id)
    start, end = partition.log_start_offset, partition.readable_end(True)
    if not start <= offset < end:
        return 0
    numbers = await broker.numbered(topic)
    queue = queue_of(call, topic, queue_id, numbers[queue_id])
    read = partial(read_messages, partition.log, queue, offset, end, _ONE_MESSAGE)
    try:
        found = await called_back(partial(broker.broker.disk.run, read))
    except HeadraceError:
        return 0  # retention has deleted it since
    messages = list(decode_messages(b"".join(found.parts)))
    return messages[0].stored_at_ms if messages else 0


def all_consume_stats(call: "RemotingCall") -> None:
    """Answer GET_BROKER_CONSUME_STATS (317): the offsets of all groups, by group and topic."""
    call.require_admin(AdminOperation.DESCRIBE_CLUSTER_CONFIGS)
    call.work(_all_stats(call))


async def _all_stats(call: "RemotingCall") -> RemotingAnswer:
    groups: list[FastJson] = []
    total = 0
    for group in call.broker.known_groups():
        topics: list[FastJson] = []
        for topic in _topics_of(call.broker, group):
            queues = await _topic_stats(call, group, topic)
            rate = call.broker.traffic.pulled_rate(group, topic.info.name).per_second
            topics.append({"consumeTps": round(rate, 2), "offsetTable": _keyed(queues)})
            total += sum(max(each.end - each.offset, 0) for each in queues)
        groups.append({group: topics})
    body = encode_body(
        {
            "brokerAddr": call.peer.endpoint,
            "consumeStatsList": groups,
            "totalDiff": total,
            "totalInflightDiff": 0,
        }
    )
    return RemotingAnswer(body=body)


def all_offsets(call: "RemotingCall") -> RemotingAnswer:
    """Answer GET_ALL_CONSUMER_OFFSET (43): the offsets as consumerOffset.json has them."""
    call.require_admin(AdminOperation.DESCRIBE_CLUSTER_CONFIGS)
    return RemotingAnswer(body=encode_body(offsets_json(call.broker)))


def offsets_json(broker: "ServedBroker") -> dict[str, FastJson]:
    """Return all groups' offsets as consumerOffset.json has them. ApiError: loading."""
    topics_of: dict[str, FastJson] = {}
    table: dict[str, FastJson] = {}
    for group in broker.known_groups():
        names: list[FastJson] = []
        for kafka_name, stored in sorted(broker.commits().offsets(group).items()):
            name = rocketmq_name(kafka_name)
            if name is None:
                continue
            names.append(name)
            pairs = [(queue, each.offset) for queue, each in sorted(stored.items())]
            table[f"{name}@{group}"] = Keyed(tuple(pairs))
        if names:
            topics_of[group] = names
    return {
        "dataVersion": {"counter": 1, "stateVersion": 0, "timestamp": broker.started_ms},
        "groupTopicMap": topics_of,
        "offsetTable": table,
    }


# Deletion


def delete_group(call: "RemotingCall") -> None:
    """Answer DELETE_SUBSCRIPTIONGROUP (207): settings, and offsets with `cleanOffset`.

    Clients before 5.0 call it `removeOffset`.
    """
    fields = Fields(call.command)
    group = fields.text("groupName")
    clean = fields.boolean("cleanOffset") or fields.boolean("removeOffset")
    call.require_admin(AdminOperation.DELETE_GROUP, group)
    call.change(
        {"group": group, "cleanOffset": clean}, _deleted(call, group, clean), RemotingAnswer()
    )


async def _deleted(call: "RemotingCall", group: str, clean: bool) -> None:
    await call.broker.configs.groups.remove(group)
    if clean:
        code = await called_back(partial(call.broker.commits().delete, group))
        if code not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
            raise ApiError(code, f"the offsets of group {group} are not deleted")
