"""Messages of transactions: stored undecided, decided by END_TRANSACTION (37), asked about by 39.

A producer sends a message with TRAN_MSG, which no consumer of any protocol sees in its topic, and
decides by a one-way request. If that is lost, CHECK_TRANSACTION_STATE (39) asks a live member of
its group, which answers with request 37 again.
"""

import re
from typing import TYPE_CHECKING

from headrace.frontends.rocketmq.answers import RemotingAnswer, RequestRefused
from headrace.frontends.rocketmq.held.held_topics import (
    HALF_TOPIC,
    QueueName,
    held_message,
    sent_message,
)
from headrace.model.errors import Malformed
from headrace.security.authorizer import Operation
from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from headrace.wire.rocketmq.delays import DELAY, later_delivery
from headrace.wire.rocketmq.later_properties import (
    WAITS_FOR_STORE,
    asked_properties,
    committed_properties,
    half_properties,
)
from headrace.wire.rocketmq.later_requests import EndTransactionRequest, end_transaction_request
from headrace.wire.rocketmq.message_ids import (
    PlaceInCluster,
    message_id,
    physical_offset,
    place_of,
)
from headrace.wire.rocketmq.properties import (
    UNIQUE_KEY,
    closed,
    find_property,
    with_property_if_room,
)
from headrace.wire.rocketmq.sent_messages import MessageIllegal, SentMessage
from headrace.wire.rocketmq.stored_messages import PulledMessage, SystemFlag, encode_message
from headrace.wire.rocketmq.topic_names import rocketmq_name

if TYPE_CHECKING:
    from headrace.frontends.rocketmq.call import RemotingCall, RemotingClientSide
    from headrace.frontends.rocketmq.serving import ServedBroker, ServedTopic
    from headrace.held.topic_targets import HeldTopicMessage, StoredTopicMessage
    from headrace.model.errors import ApiError
    from headrace.ports.callbacks import Done
    from headrace.wire.rocketmq.requests import SendRequest

TRANSACTION = b"TRAN_MSG"
PRODUCER_GROUP = b"PGROUP"
CHECK_IMMUNITY_SECONDS = b"CHECK_IMMUNITY_TIME_IN_SECONDS"
"""The producer's own time until it is asked first."""
HALF_TOPIC_SHOWN = "RMQ_SYS_TRANS_HALF_TOPIC"
"""RocketMQ's name of the topic of undecided messages."""
_SECONDS = re.compile(rb"[0-9]{1,9}")


# Sends


def is_undecided(request: "SendRequest", properties: bytes) -> bool:
    """Return whether a send is the first half of a transaction. Raises RequestRefused.

    A consumer's retry of a message that was in one is not.
    """
    bits = request.system_flag & SystemFlag.ROLLED_BACK
    if bits & SystemFlag.COMMITTED:
        text = "a send cannot commit or roll back: its system flag says so"
        raise RequestRefused(ResponseCode.NO_PERMISSION, text)
    if request.reconsume_times > 0 and find_property(properties, DELAY):
        return False
    marked = (find_property(properties, TRANSACTION) or b"").lower() == b"true"
    return marked or bits == SystemFlag.PREPARED


def first_ask_ms(properties: bytes, now_ms: int, after_ms: int) -> int:
    """Return when the producer of a message is asked first, ms since 1970.

    That is `after_ms` from now, unless the producer names another time.
    """
    named = find_property(properties, CHECK_IMMUNITY_SECONDS)
    if named is not None and _SECONDS.fullmatch(named):
        return now_ms + int(named) * 1000
    return now_ms + after_ms


def half_of(sent: SentMessage) -> SentMessage:
    """Return a message as it is stored while it is undecided."""
    facts = sent.facts
    properties = half_properties(facts.properties)
    flag = facts.system_flag & ~SystemFlag.ROLLED_BACK
    return sent._replace(facts=facts._replace(system_flag=flag, properties=properties))


# END_TRANSACTION


def end_transaction(call: "RemotingCall") -> RemotingAnswer | None:
    """Answer END_TRANSACTION (37), which clients send one-way."""
    request = end_transaction_request(call.command)
    if request.decision == SystemFlag.PREPARED:
        text = "commitOrRollback of the request is neither a commit nor a rollback"
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, text)
    if not request.decision:
        return RemotingAnswer()  # not known yet: the producer is asked again
    call.work(_ended(call, request))
    return None


async def _ended(call: "RemotingCall", request: EndTransactionRequest) -> RemotingAnswer:
    broker = call.broker
    held = broker.held
    try:
        number, offset = place_of(request.physical_offset)
    except Malformed as error:
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, str(error)) from None
    if HALF_TOPIC not in broker.broker.image.topics:
        raise _not_undecided(request)
    half = await held.half.get()
    if number != held.number(HALF_TOPIC):
        raise _not_undecided(request)
    if request.queue_offset not in (None, offset):
        text = "The transaction state table offset wrong"
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, text)

    def check(message: "HeldTopicMessage") -> None:
        _check_decision(call, request, message)

    def commit(message: "HeldTopicMessage", done: "Done[int | ApiError]") -> None:
        _commit(broker, message, request.physical_offset, half.asked(offset), done)

    commits = request.decision == SystemFlag.COMMITTED
    if not await half.decide(offset, check, commit if commits else None):
        raise _not_undecided(request)
    return RemotingAnswer()


def _not_undecided(request: EndTransactionRequest) -> RequestRefused:
    text = (
        f"no undecided message is at {request.physical_offset}: it was committed or rolled back"
        " before, or there never was one"
    )
    return RequestRefused(ResponseCode.SYSTEM_ERROR, text)


def _check_decision(
    call: "RemotingCall", request: EndTransactionRequest, message: "HeldTopicMessage"
) -> None:
    """Raise RequestRefused if a client may not decide on a message."""
    broker = call.broker
    properties = sent_message(message, 0).facts.properties
    group = find_property(properties, PRODUCER_GROUP)
    if group is not None and group != request.producer_group.encode("utf-8", "replace"):
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, "The producer group wrong")
    topic = _target(broker, message)
    if topic is not None:
        broker.require_topic(call.identity, Operation.WRITE, topic)


def _target(broker: "ServedBroker", message: "HeldTopicMessage") -> "ServedTopic | None":
    """Return the topic that a message waits for; None: it was deleted."""
    name = rocketmq_name(message.target.topic)
    return None if name is None else broker.topic_if_any(name)


def _commit(
    broker: "ServedBroker",
    message: "HeldTopicMessage",
    physical: int,
    asked: int,
    done: "Done[int | ApiError]",
) -> None:
    """Store a committed message in its queue, or in the log of delays if it asks for a delay.

    `physical`: the physical offset of the half; `asked`: how often its producer was asked.
    """
    clock = broker.broker.clock
    sent = sent_message(message, clock.wall_ms())
    facts = sent.facts
    properties = committed_properties(facts.properties, asked)
    flag = facts.system_flag & ~SystemFlag.ROLLED_BACK | SystemFlag.COMMITTED
    try:
        later = later_delivery(properties, clock.wall_ms(), broker.settings.delay_ms_max)
    except MessageIllegal:
        later = None  # its delay was wrong when it was sent
    if later is not None:
        properties = later.properties
    facts = facts._replace(system_flag=flag, properties=properties, prepared_offset=physical)
    sent = sent._replace(facts=facts)
    if later is None:
        broker.store(message.target, sent, done)
        return
    topic, queue_id = message.target
    named = QueueName(rocketmq_name(topic) or topic, queue_id)
    broker.held.delay(held_message(message.target, named, sent), later.due_ms, done)


# CHECK_TRANSACTION_STATE


def ask_producer(broker: "ServedBroker", stored: "StoredTopicMessage", count: int) -> bool:
    """Ask a live producer about an undecided message; return whether there is one.

    It gets the message, so it must be allowed to write to the topic, as for a decision. `count`:
    the number of questions about the message, this one included.
    """
    message = stored.message
    facts = sent_message(message, 0).facts
    group = (find_property(facts.properties, PRODUCER_GROUP) or b"").decode("utf-8", "replace")
    target = _target(broker, message)

    def may_decide(client: "RemotingClientSide") -> bool:
        return target is None or broker.may(client.identity, Operation.WRITE, target)

    producer = broker.producers.any_member(group, may_decide)
    if producer is None:
        return False
    offset = stored.place.offset
    physical = physical_offset(PlaceInCluster(broker.held.number(HALF_TOPIC), offset))
    unique = (find_property(facts.properties, UNIQUE_KEY) or b"").decode("utf-8", "replace")
    # RocketMQ stores the message again before it asks, and changes WAIT of the one that it sends.
    properties = with_property_if_room(
        asked_properties(facts.properties, count), WAITS_FOR_STORE, b"false"
    )
    properties = closed(properties) + broker.added_properties
    topic, queue_id = message.target
    host = producer.peer.store_host
    body = encode_message(
        PulledMessage(
            (rocketmq_name(topic) or topic).encode(), queue_id, offset, physical, message.body,
            properties, facts.born_at_ms, facts.born_host, facts.born_at_ms, host, facts.flag,
            facts.system_flag, facts.reconsume_times, 0,
        )
    )  # fmt: skip
    producer.request(
        RequestCode.CHECK_TRANSACTION_STATE,
        {
            "bname": broker.name,
            "commitLogOffset": str(physical),
            "topic": HALF_TOPIC_SHOWN,
            "msgId": unique,
            "tranStateTableOffset": str(offset),
            "offsetMsgId": message_id(host, physical),
            "transactionId": unique,
        },
        body,
    )
    return True
