"""Members of groups: heartbeats (34), leaving (35), lists (38), locks (41, 42), checks (46)."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from headrace.frontends.rocketmq.answers import RemotingAnswer, RequestRefused
from headrace.frontends.rocketmq.filters import filter_of
from headrace.model.errors import Malformed
from headrace.security.authorizer import Operation
from headrace.subscriptions.members import GroupSubscription, TopicSubscription
from headrace.subscriptions.queue_locks import LockedQueue
from headrace.subscriptions.tag_filters import TAG_TYPE
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.fastjson import FastJson, decode_body, encode_body
from headrace.wire.rocketmq.requests import Fields, InvalidField

if TYPE_CHECKING:
    from headrace.frontends.rocketmq.call import RemotingCall

SUPPORTS_SHORT = "IS_SUPPORT_HEART_BEAT_V2"
HAS_CHANGED = "IS_SUB_CHANGE"
"""Fields of a heartbeat's answer. A client whose answer says that nothing changed sends heartbeats
without subscriptions from then on."""
MODELS = ("BROADCASTING", "CLUSTERING")
BEGINNINGS = (
    "CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
    "CONSUME_FROM_MIN_OFFSET", "CONSUME_FROM_MAX_OFFSET", "CONSUME_FROM_FIRST_OFFSET",
    "CONSUME_FROM_TIMESTAMP",
)  # fmt: skip
CONSUMPTIONS = ("CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP")
"""RocketMQ's enumerations in heartbeats, each name at its number."""
_GROUPS_MAX = 1024
_TOPICS_MAX = 4096
"""Groups of a client, and topics of a group, at most."""


def heartbeat(call: "RemotingCall") -> RemotingAnswer:
    """Answer HEART_BEAT (34): renew the client's memberships."""
    body = body_object(call)
    broker, now = call.broker, call.broker.broker.clock.monotonic()
    call.client.client_id = client_id = _text(body, "clientID")
    call.client.language, call.client.version = call.command.language, call.command.version
    call.client.identity = call.identity
    broker.clients[client_id] = call.client
    producers = _list(body, "producerDataSet", _GROUPS_MAX)
    names = (_mapping(producer).get("groupName") for producer in producers)
    broker.producers.heartbeat(call.client, filter(None, map(_name, names)), now)
    changed = True
    if body.get("withoutSub") is True:
        changed = not broker.members.renew(call.client, now)
    else:
        subscriptions = [
            _subscription(_mapping(consumer))
            for consumer in _list(body, "consumerDataSet", _GROUPS_MAX)
        ]
        for subscription in subscriptions:
            broker.require_group(call.identity, subscription.group)
            broker.check_group_is_free(subscription.group)
        broker.members.heartbeat(call.client, client_id, subscriptions, now)
        for subscription in subscriptions:
            broker.note_group(subscription.group)
        _number_topics(call, subscriptions)
    return RemotingAnswer(
        fields={SUPPORTS_SHORT: "true", HAS_CHANGED: "true" if changed else "false"}
    )


def _number_topics(call: "RemotingCall", subscriptions: Iterable[GroupSubscription]) -> None:
    """Note that groups use their topics: a queue that is added from now on is new to them."""
    for name in {each.topic for group in subscriptions for each in group.topics}:
        with suppress(RequestRefused):  # the name is no topic's
            topic = call.broker.topic_if_any(name)
            if topic is not None and call.broker.may(call.identity, Operation.READ, topic):
                call.broker.number_soon(topic)


def _subscription(consumer: Mapping[str, FastJson]) -> GroupSubscription:
    return GroupSubscription(
        _text(consumer, "groupName"),
        tuple(
            _topic(_mapping(topic)) for topic in _list(consumer, "subscriptionDataSet", _TOPICS_MAX)
        ),
        _named(consumer.get("messageModel"), MODELS) == "BROADCASTING",
        _named(consumer.get("consumeFromWhere"), BEGINNINGS),
        _named(consumer.get("consumeType"), CONSUMPTIONS),
    )


def _named(value: FastJson, names: tuple[str, ...]) -> str:
    """Return the name of an enumeration's value, which C++ writes as its number."""
    if isinstance(value, int):
        return names[value] if 0 <= value < len(names) else ""
    return value if isinstance(value, str) else ""


def _topic(topic: Mapping[str, FastJson]) -> TopicSubscription:
    version = topic.get("subVersion", 0)
    if isinstance(version, str) and version.isdecimal():
        version = int(version)  # of C++
    if not isinstance(version, int):
        raise InvalidField("subVersion of the heartbeat is not a number")
    return TopicSubscription(
        _text(topic, "topic"),
        str(topic.get("subString") or "*"),
        str(topic.get("expressionType") or TAG_TYPE),
        version,
    )


def unregister(call: "RemotingCall") -> RemotingAnswer:
    """Answer UNREGISTER_CLIENT (35): the client leaves a group, or stops to produce."""
    fields = Fields(call.command)
    group, producer_group = fields.text("consumerGroup", ""), fields.text("producerGroup", "")
    if group:
        call.broker.members.leave(call.client, group)
    if producer_group:
        call.broker.producers.leave(call.client, producer_group)
    return RemotingAnswer(fields={})


def consumer_list(call: "RemotingCall") -> RemotingAnswer:
    """Answer GET_CONSUMER_LIST_BY_GROUP (38): the members' ids, in one order for all."""
    group = Fields(call.command).text("consumerGroup")
    call.broker.require_group(call.identity, group)
    ids = call.broker.members.client_ids(group)
    if not ids:
        text = f"no consumer for this group, {group}"
        return RemotingAnswer(ResponseCode.SYSTEM_ERROR, {}, b"", text)
    return RemotingAnswer(fields={}, body=encode_body({"consumerIdList": list(ids)}))


def lock_queues(call: "RemotingCall") -> RemotingAnswer:
    """Answer LOCK_BATCH_MQ (41) with the queues that the client holds now."""
    group, client_id, queues = _locked(call)
    now = call.broker.broker.clock.monotonic()
    held = call.broker.locks.lock(group, client_id, queues, now)
    shown: list[FastJson] = [
        {"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic}
        for queue in held
    ]
    return RemotingAnswer(body=encode_body({"lockOKMQSet": shown}))


def unlock_queues(call: "RemotingCall") -> RemotingAnswer:
    """Answer UNLOCK_BATCH_MQ (42); queues of another owner stay locked."""
    group, client_id, queues = _locked(call)
    call.broker.locks.unlock(group, client_id, queues)
    return RemotingAnswer()


def _locked(call: "RemotingCall") -> tuple[str, str, list[LockedQueue]]:
    body = body_object(call)
    group = _text(body, "consumerGroup")
    call.broker.require_group(call.identity, group)
    queues = []
    for queue in map(_mapping, _list(body, "mqSet", _TOPICS_MAX)):
        queue_id = queue.get("queueId")
        if not isinstance(queue_id, int):
            raise InvalidField("queueId of a queue is not a number")
        queues.append(LockedQueue(_text(queue, "topic"), _text(queue, "brokerName"), queue_id))
    return group, _text(body, "clientId"), queues


def check_client(call: "RemotingCall") -> RemotingAnswer:
    """Answer CHECK_CLIENT_CONFIG (46): whether the broker can apply a filter."""
    subscription = _mapping(body_object(call).get("subscriptionData"))
    topic = _topic(subscription)
    filter_of(topic.expression_type, topic.expression)
    return RemotingAnswer()


# Bodies


def body_object(call: "RemotingCall") -> Mapping[str, FastJson]:
    """Return a request's body, an object. Raises InvalidField."""
    try:
        return _mapping(decode_body(call.command.body))
    except Malformed as error:
        raise InvalidField(str(error)) from None


def _mapping(value: FastJson) -> Mapping[str, FastJson]:
    if not isinstance(value, dict):
        raise InvalidField("the request's body is not an object where one is needed")
    return value


def _list(body: Mapping[str, FastJson], name: str, count_max: int) -> list[FastJson]:
    value = body.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or len(value) > count_max:
        raise InvalidField(f"{name} of the request is not a list of at most {count_max}")
    return value


def _text(body: Mapping[str, FastJson], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise InvalidField(f"{name} of the request is missing or is not text")
    return value


def _name(value: FastJson) -> str:
    return value if isinstance(value, str) else ""
