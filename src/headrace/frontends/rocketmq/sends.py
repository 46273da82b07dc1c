"""SEND_MESSAGE (10), SEND_MESSAGE_V2 (310) and SEND_BATCH_MESSAGE (320).

1  fields, permission, topic (created if the broker may), queue
2  the body is decompressed, a large one on a thread
3  messages of one pass and queue are one record batch, written when the pass ends
   (`sending.Sending`)
4  the answer leaves when the batch is committed, as for Kafka's acks=all
"""

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from headrace.frontends.rocketmq.answers import RemotingAnswer, RequestRefused
from headrace.frontends.rocketmq.sending import HeldTurn, QueuedSend
from headrace.frontends.rocketmq.serving import ServedBroker, ServedTopic
from headrace.frontends.rocketmq.topics import created_for_send
from headrace.model.errors import ApiError, HeadraceError, Malformed
from headrace.model.nouns import TopicPartition
from headrace.security.authorizer import Operation
from headrace.wire.rocketmq.batch_bodies import BatchedMessage, decode_batch
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.message_ids import PlaceInCluster, message_id, physical_offset
from headrace.wire.rocketmq.properties import (
    ENTRY_END,
    NAME_END,
    UNIQUE_KEY,
    closed,
    find_property,
)
from headrace.wire.rocketmq.record_header import MessageFacts
from headrace.wire.rocketmq.requests import InvalidField, SendRequest, send_request
from headrace.wire.rocketmq.sent_messages import (
    MessageIllegal,
    SentMessage,
    check_sent,
    plain_body,
)
from headrace.wire.rocketmq.stored_messages import SystemFlag

if TYPE_CHECKING:
    from headrace.frontends.rocketmq.call import RemotingCall

THREAD_FROM_BYTES = 64 * 1024
"""Compressed bodies from this size on are decompressed on a thread."""
ANY_QUEUE = -1
_NOT_TAKEN = SystemFlag.PREPARED | SystemFlag.COMMITTED
_DELAYS = (b"DELAY", b"TIMER_DELAY_MS", b"TIMER_DELAY_SEC", b"TIMER_DELIVER_MS")
"""Properties that ask for a later delivery."""


def send(call: "RemotingCall") -> None:
    """Answer a send, later. Sends to a topic keep their order, also those that wait for it."""
    request = send_request(call.command)
    broker = call.broker
    waiting = broker.waiting_sends.get(request.topic)
    if waiting is not None:
        waiting.append((call, request))
        return
    topic = broker.topic_if_any(request.topic)
    numbers = None if topic is None else broker.numbers.known(topic.info)
    if topic is None or numbers is None:
        broker.waiting_sends[request.topic] = deque([(call, request)])
        broker.work(_send_waiting(broker, request.topic))
        return
    _prepare(call, request, topic, numbers)


async def _send_waiting(broker: ServedBroker, name: str) -> None:
    """Do the sends that wait for a topic or its partitions' numbers, in order, until none waits."""
    waiting = broker.waiting_sends[name]
    try:
        while waiting:
            call, request = waiting.popleft()
            try:
                await _send_to_new_topic(call, request)
            except HeadraceError as error:
                call.fail(error)
    finally:
        del broker.waiting_sends[name]
        for call, _ in waiting:  # only if the broker stops, or by a fault in one of them
            call.fail(HeadraceError("the message was not stored"))


async def _send_to_new_topic(call: "RemotingCall", request: SendRequest) -> None:
    broker = call.broker
    topic = await created_for_send(
        broker, call.identity, request.topic, request.default_topic, request.default_queues
    )
    broker.require_topic(call.identity, Operation.WRITE, topic)
    _prepare(call, request, topic, await broker.numbered(topic))


def _prepare(
    call: "RemotingCall", request: SendRequest, topic: ServedTopic, numbers: Sequence[int]
) -> None:
    broker = call.broker
    broker.require_topic(call.identity, Operation.WRITE, topic)
    queue_id = _queue(broker, topic, request.queue_id)
    messages = _messages(call, request)
    _refuse_later_steps(request, messages)
    large = request.system_flag & SystemFlag.COMPRESSED and len(call.command.body) > (
        THREAD_FROM_BYTES
    )
    work = partial(_sent, request, messages, call.peer.born_host)
    place = TopicPartition(topic.info.name, queue_id)
    have = partial(_have_sent, call, place, numbers[queue_id])
    if large:
        # What arrives meanwhile for the same queue is stored behind it.
        turn = broker.sending.hold(place)
        broker.broker.disk.run(partial(_tried, work), partial(have, turn))
    else:
        have(None, _tried(work))


def _queue(broker: ServedBroker, topic: ServedTopic, queue_id: int) -> int:
    if queue_id == ANY_QUEUE:
        queues = topic.write_queues
        return int(broker.broker.random.uniform(0, queues)) % queues
    # A producer that does not know a lower number of write queues yet sends to the others, too.
    queues = max(topic.read_queues, topic.write_queues)
    if not 0 <= queue_id < queues:
        text = f"request queueId[{queue_id}] is illegal, topic[{topic.name}] has {queues}"
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, text)
    return queue_id


def _messages(call: "RemotingCall", request: SendRequest) -> list[BatchedMessage]:
    body = call.command.body
    if not request.is_batch:
        return [BatchedMessage(request.flag, bytes(body), _with_unique_key(call, request))]
    try:
        return decode_batch(body)
    except Malformed as error:
        raise InvalidField(str(error)) from None


def _with_unique_key(call: "RemotingCall", request: SendRequest) -> bytes:
    """Return the properties of a message; one without a client's id gets it here (ali-ons)."""
    properties = request.properties
    if find_property(properties, UNIQUE_KEY) is None:
        made = call.broker.broker.random.uuid().hex().upper().encode()
        properties = b"".join((closed(properties), UNIQUE_KEY, NAME_END, made, ENTRY_END))
    return properties


def _refuse_later_steps(request: SendRequest, messages: list[BatchedMessage]) -> None:
    """Refuse messages that would be delivered at once though the producer asks otherwise."""
    if request.system_flag & _NOT_TAKEN:
        text = "transactions are not supported: the message would be visible before its commit"
        raise RequestRefused(ResponseCode.NO_PERMISSION, text)
    for message in messages:
        if any(find_property(message.properties, name) for name in _DELAYS):
            text = "delayed messages are not supported: the message would be delivered at once"
            raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, text)


def _sent(
    request: SendRequest, messages: list[BatchedMessage], born_host: bytes
) -> list[SentMessage]:
    """Return messages as they are stored. Raises MessageIllegal. On any thread."""
    sent = []
    for flag, body, properties in messages:
        check_sent(body, properties)
        facts = MessageFacts(
            flag,
            request.system_flag,
            request.born_at_ms,
            request.reconsume_times,
            born_host,
            properties,
        )
        sent.append(SentMessage(plain_body(body, request.system_flag), facts))
    return sent


def _tried(work: "partial[list[SentMessage]]") -> list[SentMessage] | MessageIllegal:
    try:
        return work()
    except MessageIllegal as error:
        return error


def _have_sent(
    call: "RemotingCall",
    place: TopicPartition,
    number: int,
    turn: HeldTurn | None,
    sent: "list[SentMessage] | MessageIllegal | BaseException",
) -> None:
    """Store messages as the next ones of their queue, or in the turn that was held for them."""
    sending = call.broker.sending
    queued = None
    if isinstance(sent, list):
        queued = QueuedSend(place, sent, partial(_stored, call, number, place.partition, sent))
    if turn is not None:
        sending.end_turn(turn, queued)
    elif queued is not None:
        sending.add(queued)
    if isinstance(sent, MessageIllegal):
        call.answer(RemotingAnswer(ResponseCode.MESSAGE_ILLEGAL, None, b"", str(sent)))
    elif isinstance(sent, BaseException):
        raise sent


def _stored(
    call: "RemotingCall",
    number: int,
    queue_id: int,
    sent: list[SentMessage],
    offset: int | ApiError,
) -> None:
    """Answer for stored messages, the first of which has this offset, or for the error."""
    if isinstance(offset, ApiError):
        call.fail(offset)
        return
    broker = call.broker
    host = call.peer.store_host
    ids = [
        message_id(host, physical_offset(PlaceInCluster(number, offset + at)))
        for at in range(len(sent))
    ]
    fields = {"queueId": str(queue_id)}
    unique = find_property(sent[0].facts.properties, UNIQUE_KEY)
    if unique is not None and len(ids) == 1:
        fields["transactionId"] = unique.decode("utf-8", "replace")
    fields |= {
        "msgId": ",".join(ids),
        "TRACE_ON": "true",
        "MSG_REGION": broker.settings.region,
        "queueOffset": str(offset),
    }
    call.answer(RemotingAnswer(fields=fields))
