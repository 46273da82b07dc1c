"""SEND_MESSAGE (10), SEND_MESSAGE_V2 (310) and SEND_BATCH_MESSAGE (320).

1  fields, permission, topic (created if the broker may), queue
2  the body is decompressed, a large one on a thread
3  messages of one pass and queue are one record batch, written when the pass ends
   (`sending.Sending`); a delayed message goes to the log of delays (`later.held_topics`)
4  the answer leaves at the event that the send mode names: by default when the batch is
   committed, as for Kafka's acks=all (`send_modes`)

Most sends of Java's client come here only once for each topic: `send_runs` has the others.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from headrace.frontends.rocketmq.answers import RemotingAnswer, RequestRefused
from headrace.frontends.rocketmq.held.held_topics import (
    DELAYS_TOPIC,
    HALF_TOPIC,
    QueueName,
    held_message,
)
from headrace.frontends.rocketmq.held.send_back import retried
from headrace.frontends.rocketmq.held.transactions import first_ask_ms, half_of, is_undecided
from headrace.frontends.rocketmq.send_modes import UNWAITED, Event, SendMode, waits_until_stored
from headrace.frontends.rocketmq.sending import HeldTurn, QueuedSend
from headrace.frontends.rocketmq.serving import ServedBroker, ServedTopic
from headrace.frontends.rocketmq.topics import created_for_send
from headrace.model.errors import ApiError, HeadraceError, Malformed
from headrace.model.nouns import Offset, TopicPartition
from headrace.ports.callbacks import ignore_result
from headrace.security.authorizer import Operation
from headrace.wire.rocketmq.batch_bodies import BatchedMessage, decode_batch
from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from headrace.wire.rocketmq.delays import (
    LaterDelivery,
    RecallHandle,
    asks_for_delay,
    encode_recall_handle,
    later_delivery,
)
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
    SentMessage,
    check_sent,
    plain_body,
)
from headrace.wire.rocketmq.stored_messages import SystemFlag
from headrace.wire.rocketmq.topic_names import NOT_SENDABLE, RETRY_PREFIX

if TYPE_CHECKING:
    from headrace.frontends.rocketmq.call import RemotingCall

THREAD_FROM_BYTES = 64 * 1024
"""Compressed bodies from this size on are decompressed on a thread."""
ANY_QUEUE = -1
REPLIES = (RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2)
"""Sends whose answers do not have the unique key."""
_HINTS = (b"DELAY", b"TIMER_", b"TRAN_MSG")
"""Without all of these, properties name neither a delay nor a transaction."""


def send(call: "RemotingCall") -> None:
    """Answer a send, later. Sends to a topic keep their order, also those that wait for it."""
    request = send_request(call.command)
    check_has_body(call)
    broker = call.broker
    call.error_fields = broker.sent_fields
    if request.topic in NOT_SENDABLE:
        text = f"Sending message to topic[{request.topic}] is forbidden."
        raise RequestRefused(ResponseCode.NO_PERMISSION, text)
    if request.topic.startswith(RETRY_PREFIX):
        request = retried(call, request)
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
    store_sent(call, request, topic, numbers)


def check_has_body(call: "RemotingCall") -> None:
    """Raise InvalidField if a send has no body."""
    if not call.command.body:
        raise InvalidField("the message body is empty")


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
    store_sent(call, request, topic, await broker.numbered(topic))


def store_sent(
    call: "RemotingCall", request: SendRequest, topic: ServedTopic, numbers: Sequence[int]
) -> None:
    """Store the messages of a request in a topic whose partitions have numbers, and answer it."""
    broker = call.broker
    broker.require_topic(call.identity, Operation.WRITE, topic)
    queue_id = _queue(broker, topic, request.queue_id)
    broker.watermark.check(broker.partition(topic, queue_id).log)
    messages = _messages(call, request)
    waits = _waits(broker, request, messages)
    large = request.system_flag & SystemFlag.COMPRESSED and len(call.command.body) > (
        THREAD_FROM_BYTES
    )
    work = partial(_sent, request, messages, call.peer.born_host)
    mode = broker.settings.send_mode if waits_until_stored(request.properties) else UNWAITED
    queue = _SentTo(topic, queue_id, numbers[queue_id], mode)
    have = partial(_have_sent, call, queue, waits)
    if large:
        # What arrives meanwhile for the same queue is stored behind it.
        turn = broker.sending.hold(queue.place) if waits is None else None
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


class _Waits(NamedTuple):
    """The event that a message waits for: its time, or its producer's decision."""

    later: LaterDelivery | None
    ask_ms: int = 0
    """When its producer is asked, ms since 1970; counts without `later`."""


def _waits(
    broker: ServedBroker, request: SendRequest, messages: list[BatchedMessage]
) -> _Waits | None:
    """Return what a message waits for, None: it is stored in its queue at once.

    RequestRefused: a message of a batch would have to wait. MessageIllegal: a wrong delay.
    """
    if not request.system_flag & SystemFlag.ROLLED_BACK and not any(
        hint in message.properties for message in messages for hint in _HINTS
    ):
        return None  # nearly every message: one search for each hint decides
    properties = messages[0].properties
    if request.is_batch:
        if any(
            asks_for_delay(each.properties) or is_undecided(request, each.properties)
            for each in messages
        ):
            text = "a batch has delays or transactions: send such messages one by one"
            raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, text)
        return None
    now_ms = broker.broker.clock.wall_ms()
    if is_undecided(request, properties):
        return _Waits(None, first_ask_ms(properties, now_ms, broker.settings.asked_after_ms))
    later = later_delivery(properties, now_ms, broker.settings.delay_ms_max)
    return None if later is None else _Waits(later)


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


def _tried(work: "partial[list[SentMessage]]") -> list[SentMessage] | HeadraceError:
    try:
        return work()
    except HeadraceError as error:
        return error


class _SentTo(NamedTuple):
    """The queue of a send, its number in the cluster, and what the answer waits for."""

    topic: ServedTopic
    queue_id: int
    number: int
    mode: SendMode

    @property
    def place(self) -> TopicPartition:
        """The queue's partition."""
        return TopicPartition(self.topic.info.name, self.queue_id)


def _have_sent(
    call: "RemotingCall",
    queue: _SentTo,
    waits: _Waits | None,
    turn: HeldTurn | None,
    sent: "list[SentMessage] | BaseException",
) -> None:
    """Store messages as the next ones of their queue, or in the turn that was held for them."""
    sending = call.broker.sending
    queued = None
    if waits is None and isinstance(sent, list):
        stored = partial(_stored, call, queue, sent)
        queued = QueuedSend(queue.place, sent, stored, stored, queue.mode)
    if turn is not None:
        sending.end_turn(turn, queued)
    elif queued is not None:
        sending.add(queued)
    if isinstance(sent, HeadraceError):
        call.fail(sent)
        return
    if isinstance(sent, BaseException):
        raise sent
    if waits is None:
        return
    (message,) = sent
    later = waits.later
    if later is None:
        _hold(call, queue, half_of(message), HALF_TOPIC, waits.ask_ms)
    else:
        message = message._replace(facts=message.facts._replace(properties=later.properties))
        handle = _recall_handle(call, queue, message, later)
        _hold(call, queue, message, DELAYS_TOPIC, later.due_ms, handle)


def _hold(
    call: "RemotingCall",
    queue: _SentTo,
    message: SentMessage,
    topic: str,
    time_ms: int,
    recall_handle: str | None = None,
) -> None:
    """Store a message in an internal topic until a time, and answer the send."""
    held = call.broker.held
    named = QueueName(queue.topic.name, queue.queue_id)
    done = partial(_held, call, queue, message, topic, recall_handle)
    hold = held.half_message if topic == HALF_TOPIC else held.delay
    appended = partial(_await_flush, call.broker, queue.mode, topic, done)
    hold(held_message(queue.place, named, message), time_ms, done, appended)


def _await_flush(
    broker: ServedBroker,
    mode: SendMode,
    topic: str,
    done: Callable[[int, ResponseCode], None],
    offset: int,
) -> None:
    """Answer the send of a held message that is appended if its flush or replicas are late."""
    partition, waits = broker.broker.partition(topic, 0), broker.sending.waits
    event = mode.event(partition)

    def late(code: ResponseCode) -> None:
        waits.counts[code] += 1
        done(offset, code)

    if event is not Event.APPENDED:
        waits.wait(mode, event, partition, Offset(offset + 1), late, ignore_result)


def _recall_handle(
    call: "RemotingCall", queue: _SentTo, message: SentMessage, later: LaterDelivery
) -> str | None:
    """Return the handle by which a producer recalls a message; levels have none."""
    unique = find_property(message.facts.properties, UNIQUE_KEY)
    if not later.is_timer or unique is None:
        return None
    key = unique.decode("utf-8", "replace")
    return encode_recall_handle(RecallHandle(queue.topic.name, call.broker.name, later.due_ms, key))


def _held(
    call: "RemotingCall",
    queue: _SentTo,
    message: SentMessage,
    topic: str,
    recall_handle: str | None,
    offset: int | ApiError,
    code: ResponseCode = ResponseCode.SUCCESS,
) -> None:
    """Answer for a message that waits in an internal topic; its id names its place there."""
    number = 0 if isinstance(offset, ApiError) else call.broker.held.number(topic)
    in_log = queue._replace(number=number)
    _stored(call, in_log, [message], offset, code, recall_handle)


def _stored(
    call: "RemotingCall",
    queue: _SentTo,
    sent: list[SentMessage],
    offset: int | ApiError,
    code: ResponseCode = ResponseCode.SUCCESS,
    recall_handle: str | None = None,
) -> None:
    """Answer for stored messages, the first of which has this offset, or for the error.

    A send that was answered because its flush or its replicas were late is not answered again.
    """
    if call.is_answered:
        return
    if isinstance(offset, ApiError):
        call.fail(offset)
        return
    broker = call.broker
    host = call.peer.store_host
    ids = [
        message_id(host, physical_offset(PlaceInCluster(queue.number, offset + at)))
        for at in range(len(sent))
    ]
    fields = {"queueId": str(queue.queue_id)}
    unique = find_property(_own_properties(call, sent), UNIQUE_KEY)
    if unique is not None and call.command.code not in REPLIES:
        fields["transactionId"] = unique.decode("utf-8", "replace")
    fields |= {"msgId": ",".join(ids), **broker.sent_fields}
    if recall_handle is not None:
        fields["recallHandle"] = recall_handle
    fields["queueOffset"] = str(offset)
    call.answer(RemotingAnswer(code, fields))


def _own_properties(call: "RemotingCall", sent: list[SentMessage]) -> bytes:
    """Return the properties of a send, which for a batch are not those of its messages."""
    if len(sent) == 1:
        return sent[0].facts.properties
    fields = call.command.fields or {}
    return fields.get("i", fields.get("properties", "")).encode("utf-8", "replace")
