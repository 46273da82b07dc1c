"""`Sending`: sent messages in their order on the way to the log, a batch for a queue and pass."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from headrace.frontends.rocketmq.send_modes import DURABLE, Event, SendMode, StoreWaits
from headrace.model.errors import ApiError, ErrorCode, StorageError
from headrace.model.nouns import TopicPartition
from headrace.record.batch import LOG_APPEND_TIME, parse_header, recompress
from headrace.record.batch_layout import HEADER_BYTES
from headrace.record.record_parts import Parts, build_of_parts
from headrace.record.stored_codec import level_of, stored_codec
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.sent_messages import SentMessage, parts_of

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.partition import Partition
    from headrace.ports.deadlines import Deadlines
    from headrace.record.compression import Codec

BATCH_BYTES_MAX = 512 * 1024
"""Bytes of messages that are written as one batch, unless one request has more."""
RECORD_BYTES = 16
"""Bytes of a record beside its key, body and headers, at most."""


class QueuedSend:
    """Messages of one or more requests, and what to do when they are stored."""

    __slots__ = ("done", "late", "mode", "parts", "place", "size")

    def __init__(
        self,
        place: TopicPartition,
        messages: Iterable[SentMessage],
        done: Callable[[int | ApiError], None],
        late: Callable[[int, ResponseCode], None] | None = None,
        mode: SendMode = DURABLE,
    ) -> None:
        self.place = place
        self.parts = [parts_of(message) for message in messages]
        """Their records but for the offsets."""
        self.size = sum(map(size_of_parts, self.parts))
        """Bytes of the messages, about."""
        self.done = done
        """Called once, with the first message's offset, or with why they may not be stored."""
        self.late = late
        """Called before `done`, at most once, with the first offset of messages that are stored,
        but not flushed or replicated in time; None: `done` alone counts, however long it takes."""
        self.mode = mode
        """The event that `done` waits for, by its settings."""


def size_of_parts(parts: Parts) -> int:
    """Return the bytes of a record, about."""
    key, body, headers = parts
    return len(key) + len(body) + len(headers) + RECORD_BYTES


class HeldTurn:
    """A request's turn in its queue, held while a thread decompresses its messages."""

    __slots__ = ("ended", "place", "send")

    def __init__(self, place: TopicPartition) -> None:
        self.place = place
        self.send: QueuedSend | None = None
        """The messages; None: not ready yet, or refused."""
        self.ended = False


class Sending:
    """Messages by queue, in the order in which they arrived, on their way to the log.

    Those of a pass are written together when it ends. While a batch of a queue is compressed, or
    the turn of a request is held, later messages of that queue wait.
    """

    def __init__(self, broker: "Broker", deadlines: "Deadlines") -> None:
        self._broker = broker
        self.waits = StoreWaits(deadlines)
        """The waits for flush and replicas."""
        self._open: dict[TopicPartition, deque[QueuedSend | HeldTurn]] = {}
        self._compressing: set[TopicPartition] = set()
        """Queues of which a batch is compressed on a thread."""
        self._timer_set = False

    def add(self, send: QueuedSend) -> None:
        """Add messages, which `write` stores: at the end of the pass, or of this turn."""
        self._write_soon()
        self.add_in_pass(send)

    def add_in_pass(self, send: QueuedSend) -> None:
        """Add messages in a pass, whose end calls `write`."""
        queue = self._open.get(send.place)
        if queue is None:
            self._open[send.place] = deque((send,))
        else:
            queue.append(send)

    def hold(self, place: TopicPartition) -> HeldTurn:
        """Return a turn behind the messages of a queue so far, to be ended by `end_turn`."""
        turn = HeldTurn(place)
        self._open.setdefault(place, deque()).append(turn)
        return turn

    def end_turn(self, turn: HeldTurn, send: QueuedSend | None) -> None:
        """Let the messages of a held turn be stored, and those behind it; None: it has none."""
        turn.send, turn.ended = send, True
        self._write_queue(turn.place)

    def is_last(self, send: QueuedSend) -> bool:
        """Return whether messages added to a send are behind all others of its queue."""
        queue = self._open.get(send.place)
        return queue is not None and queue[-1] is send

    @property
    def has_some(self) -> bool:
        """Whether there is something to write."""
        return bool(self._open)

    def _write_soon(self) -> None:
        if not self._timer_set:
            self._timer_set = True
            self._broker.clock.call_later(0, self._turn_ended)

    def _turn_ended(self) -> None:
        self._timer_set = False
        self.write()

    def write(self) -> None:
        """Write all messages whose turn it is: a batch for each queue, or several large ones."""
        for place in list(self._open):
            self._write_queue(place)

    def _write_queue(self, place: TopicPartition) -> None:
        if place in self._compressing:
            return
        queue = self._take(place)
        if not queue:
            return
        try:
            partition = self._broker.partition(place.topic, place.partition)
            if partition.keys_needed:
                text = f"{place.topic} is compacted, and messages may have no key"
                raise ApiError(ErrorCode.INVALID_RECORD, text)
        except ApiError as error:
            _refuse(queue, error)
            return
        codec = stored_codec(partition.log.config)
        for some in _batches(queue, partition):
            now_ms = self._broker.clock.wall_ms()
            content = _encoded(some, partition, now_ms)
            if codec:
                left = queue[len(some) :]
                if left:
                    self._open[place] = deque((*left, *self._open.get(place, ())))
                self._compress(some, partition, codec, content)
                return
            self._append(some, partition, bytearray(content), now_ms)

    def _take(self, place: TopicPartition) -> list[QueuedSend]:
        """Remove and return the messages of a queue up to the first turn that is held."""
        waiting = self._open.pop(place, None)
        if not waiting:
            return []
        first = waiting[0]
        if len(waiting) == 1 and isinstance(first, QueuedSend):
            return [first]
        taken: list[QueuedSend] = []
        while waiting:
            first = waiting[0]
            if isinstance(first, HeldTurn):
                if not first.ended:
                    self._open[place] = waiting
                    break
                if first.send is not None:
                    taken.append(first.send)
            else:
                taken.append(first)
            waiting.popleft()
        return taken

    def _compress(
        self, sends: list[QueuedSend], partition: "Partition", codec: "Codec", content: bytes
    ) -> None:
        """Compress a batch on a thread, then append it; later ones of the queue wait."""
        level = level_of(partition.log.config, codec)
        self._compressing.add(sends[0].place)
        self._broker.disk.run(
            lambda: recompress(content, codec, level), partial(self._compressed, sends, partition)
        )

    def _compressed(
        self,
        sends: list[QueuedSend],
        partition: "Partition",
        content: "bytearray | BaseException",
    ) -> None:
        place = sends[0].place
        self._compressing.discard(place)
        try:
            if isinstance(content, ApiError):
                _refuse(sends, content)
            elif isinstance(content, BaseException):
                _refuse(sends, ApiError(ErrorCode.UNKNOWN_SERVER_ERROR))
                raise content
            else:
                self._append(sends, partition, content, self._broker.clock.wall_ms())
        finally:
            self._write_queue(place)

    def _append(
        self, sends: list[QueuedSend], partition: "Partition", content: bytearray, now_ms: int
    ) -> None:
        """Append a batch of messages with one mode, and report each at the mode's event."""
        mode = sends[0].mode
        event = mode.event(partition)
        try:
            appended = partition.append(
                memoryview(content),
                parse_header(content),
                now_ms=now_ms,
                required_acks=mode.acks(event, partition),
            )
            if event is Event.APPENDED:
                partition.write_held()
        except ApiError as error:
            _refuse(sends, error)
            return
        except StorageError as error:
            _refuse(sends, ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)))
            return
        first, code = int(appended.base_offset), mode.answer(partition)
        if event is Event.APPENDED:
            self._ended(sends, first, code, None)
            return
        ended, late = partial(self._ended, sends, first, code), partial(self._late, sends, first)
        self.waits.wait(mode, event, partition, appended.commit_offset, late, ended)

    def _late(self, sends: list[QueuedSend], offset: int, code: ResponseCode) -> None:
        for send in sends:
            if send.late is not None:
                self.waits.counts[code] += 1
                send.late(offset, code)
            offset += len(send.parts)

    def _ended(
        self, sends: list[QueuedSend], first: int, code: ResponseCode, error: ApiError | None
    ) -> None:
        if error is not None:
            _refuse(sends, error)
            return
        if code is not ResponseCode.SUCCESS:
            self._late(sends, first, code)
        _report(sends, first)


def _encoded(sends: list[QueuedSend], partition: "Partition", now_ms: int) -> bytes:
    """Return the batch of some messages, which needs no other timestamp when it is appended."""
    parts = sends[0].parts
    if len(sends) > 1:
        parts = [parts for send in sends for parts in send.parts]
    appended = partition.log.config.message_timestamp_type == "LogAppendTime"
    return build_of_parts(parts, now_ms, LOG_APPEND_TIME if appended else 0)


def _batches(queue: list[QueuedSend], partition: "Partition") -> Iterable[list[QueuedSend]]:
    """Return requests of one mode that fit into one batch; a larger one has a batch of its own."""
    return [queue] if len(queue) == 1 else _batches_of_many(queue, _limit(partition))


def _batches_of_many(queue: list[QueuedSend], bytes_max: int) -> Iterator[list[QueuedSend]]:
    some: list[QueuedSend] = []
    size = 0
    for send in queue:
        if some and (size + send.size > bytes_max or send.mode is not some[0].mode):
            yield some
            some, size = [], 0
        some.append(send)
        size += send.size
    yield some


def _limit(partition: "Partition") -> int:
    """Return the most bytes of messages in one batch of a partition."""
    config = partition.log.config
    bytes_max = min(config.max_message_bytes, config.segment_bytes) - HEADER_BYTES
    return min(BATCH_BYTES_MAX, bytes_max)


def _report(sends: list[QueuedSend], offset: int) -> None:
    """Report stored messages, the first of which has this offset."""
    for send in sends:
        send.done(offset)
        offset += len(send.parts)


def _refuse(sends: list[QueuedSend], error: ApiError) -> None:
    for send in sends:
        send.done(error)
