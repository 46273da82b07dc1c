"""`Sending`: sent messages on their way to the log, one batch for a queue and pass."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.record.batch import parse_header, recompress
from headrace.record.batch_layout import HEADER_BYTES
from headrace.record.stored_codec import level_of, stored_codec
from headrace.wire.rocketmq.sent_messages import SentMessage, encode_batch_of

if TYPE_CHECKING:
    from headrace.broker.appended import Appended
    from headrace.broker.broker import Broker
    from headrace.broker.partition import Partition

BATCH_BYTES_MAX = 512 * 1024
"""Bytes of messages that are written as one batch, unless one request has more."""
_MESSAGE_BYTES = 64
"""Bytes of a record beside its body and its properties."""


class QueuedSend(NamedTuple):
    """The messages of one request, and what to do when they are stored."""

    place: TopicPartition
    messages: list[SentMessage]
    done: Callable[[int | ApiError], None]
    """Called once, with the first message's offset, or with why they may not be stored."""

    @property
    def size(self) -> int:
        """Bytes of the messages, about."""
        return sum(
            len(sent.body) + len(sent.facts.properties) + _MESSAGE_BYTES for sent in self.messages
        )


class Sending:
    """Messages of the present pass by queue, written together when it ends."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._open: dict[TopicPartition, list[QueuedSend]] = {}
        self._timer_set = False

    def add(self, send: QueuedSend) -> None:
        """Add messages, which `write` stores: at the end of the pass, or of this turn."""
        if not self._timer_set:
            self._timer_set = True
            self._broker.clock.call_later(0, self._turn_ended)
        self._open.setdefault(send.place, []).append(send)

    @property
    def has_some(self) -> bool:
        """Whether there is something to write."""
        return bool(self._open)

    def _turn_ended(self) -> None:
        self._timer_set = False
        self.write()

    def write(self) -> None:
        """Write all messages: a batch for each queue, or several where they are large."""
        sends, self._open = self._open, {}
        for place, queue in sends.items():
            try:
                partition = self._broker.partition(place.topic, place.partition)
                if partition.keys_needed:
                    text = f"{place.topic} is compacted, and messages may have no key"
                    raise ApiError(ErrorCode.INVALID_RECORD, text)
            except ApiError as error:
                _refuse(queue, error)
                continue
            for some in _batches(queue, min(BATCH_BYTES_MAX, _limit(partition))):
                self._write(partition, some)

    def _write(self, partition: "Partition", sends: list[QueuedSend]) -> None:
        broker = self._broker
        messages = [message for send in sends for message in send.messages]
        content = encode_batch_of(messages, broker.clock.wall_ms())
        codec = stored_codec(partition.log.config)
        if codec:
            level = level_of(partition.log.config, codec)
            broker.disk.run(
                lambda: recompress(content, codec, level),
                partial(self._compressed, sends, partition),
            )
        else:
            self._append(sends, partition, bytearray(content))

    def _compressed(
        self,
        sends: list[QueuedSend],
        partition: "Partition",
        content: "bytearray | BaseException",
    ) -> None:
        if isinstance(content, ApiError):
            _refuse(sends, content)
        elif isinstance(content, BaseException):
            raise content
        else:
            self._append(sends, partition, content)

    def _append(self, sends: list[QueuedSend], partition: "Partition", content: bytearray) -> None:
        try:
            appended = partition.append(
                memoryview(content), parse_header(content), now_ms=self._broker.clock.wall_ms()
            )
        except ApiError as error:
            _refuse(sends, error)
            return
        partition.when_committed(appended.commit_offset, partial(_committed, sends, appended))


def _batches(queue: list[QueuedSend], bytes_max: int) -> Iterator[list[QueuedSend]]:
    """Yield requests that fit into one batch; a larger request has a batch of its own."""
    some: list[QueuedSend] = []
    size = 0
    for send in queue:
        if some and size + send.size > bytes_max:
            yield some
            some, size = [], 0
        some.append(send)
        size += send.size
    yield some


def _limit(partition: "Partition") -> int:
    """Return the most bytes of records in one batch of a partition."""
    config = partition.log.config
    return min(config.max_message_bytes, config.segment_bytes) - HEADER_BYTES


def _committed(sends: list[QueuedSend], appended: "Appended", error: ApiError | None) -> None:
    if error is not None:
        _refuse(sends, error)
        return
    offset = int(appended.base_offset)
    for send in sends:
        send.done(offset)
        offset += len(send.messages)


def _refuse(sends: list[QueuedSend], error: ApiError) -> None:
    for send in sends:
        send.done(error)
