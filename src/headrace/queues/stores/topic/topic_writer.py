"""What exchanges store in a Kafka topic: records of its partitions, by their keys.

What is published in one turn is one batch for each partition, written by `write`, or when the turn
is over, by the way of a produce with acks=all: it holds once the high watermark has passed it. A
topic whose `compression.type` names a codec has its batches compressed by a thread, in their order.
On the deciding thread; nothing is kept of a topic but what is on its way to it.
"""

import logging
from collections import deque
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Protocol

from headrace.model.errors import ApiError, ErrorCode, HeadraceError
from headrace.queues.message_store import StoredDone, when_all
from headrace.queues.stores.topic.topic_records import TopicRecord, TopicRecords
from headrace.record.batch import recompress
from headrace.record.batch_layout import HEADER_BYTES
from headrace.record.key_partition import partition_of
from headrace.record.record_parts import Parts, build_of_parts
from headrace.record.stored_codec import level_of, stored_codec
from headrace.wire.amqp.content import Message

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.ports.clock import Clock, Timer
    from headrace.ports.disk import Disk

_logger = logging.getLogger(__name__)

BATCH_BYTES_MAX = 1024 * 1024
"""Records of one turn and partition that take more become several batches."""
COMPRESSING_BYTES_MAX = 64 * 1024 * 1024
"""Of one topic, waiting for a thread to compress it; more is refused until that is done."""
_KEYS_KEPT_MAX = 4096

_partition_of = lru_cache(maxsize=_KEYS_KEPT_MAX)(partition_of)


class Topics(Protocol):
    """The partitions of this broker's topics."""

    def partition_count(self, topic: str) -> int:
        """Return how many partitions a topic has; 0: there is no such topic."""

    def partition(self, topic: str, index: int) -> "Partition":
        """Return a partition that this broker leads; ApiError."""


class _Batch:
    """Records for one partition, not committed yet."""

    __slots__ = ("index", "limit", "records", "size", "waiting")

    def __init__(self, index: int, limit: int) -> None:
        self.index = index
        self.limit = limit
        self.records: list[Parts] = []
        self.size = 0
        self.waiting: list[StoredDone] = []

    def when_stored(self, done: StoredDone) -> None:
        """Call `done` once the batch is committed; False: it is not known to be. `Waited`."""
        self.waiting.append(done)


class TopicWriter:
    """Stores messages in one topic."""

    def __init__(
        self,
        topic: str,
        topics: Topics,
        disk: "Disk",
        clock: "Clock",
        to_write: Callable[["TopicWriter"], None],
    ) -> None:
        """`to_write` has `write` called at the end of the pass, if there is one."""
        self.topic = topic
        self._topics = topics
        self._disk = disk
        self._clock = clock
        self._to_write = to_write
        self._records = TopicRecords()
        self._open: dict[int, _Batch] = {}
        """Those that take more, by partition."""
        self._filled: list[_Batch] = []
        """All that are not written, in their order."""
        self._unsettled: dict[_Batch, None] = {}
        self._compressing: dict[int, deque[_Batch]] = {}
        """By partition: what a thread compresses, and what waits for that."""
        self._compressing_bytes = 0
        self._timer: Timer | None = None
        self._keyless_index = 0
        self._keyless = False

    @property
    def is_busy(self) -> bool:
        """Whether anything is on its way to the topic."""
        return bool(self._unsettled)

    def _record(self, message: Message, key_header: str | None) -> tuple[TopicRecord, "Partition"]:
        """Return a message as a record, and the partition it is for.

        ApiError: UNKNOWN_TOPIC_OR_PARTITION, INVALID_RECORD (the topic is compacted, and there is
        no key), MESSAGE_TOO_LARGE, or why the partition takes nothing. Malformed.
        """
        count = self._topics.partition_count(self.topic)
        if not count:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        record = self._records.record(message, key_header)
        if record.key is not None:
            partition = self._topics.partition(self.topic, _partition_of(record.key, count))
        else:
            partition = self._for_keyless(count)
        if partition.refusal is not None:
            raise ApiError(partition.refusal)
        if partition.keys_needed and record.key is None:
            raise ApiError(ErrorCode.INVALID_RECORD, f"'{self.topic}' is compacted")
        limit = _limit(partition)
        if record.size > limit:
            text = f"a record of {record.size} bytes, {limit} are allowed"
            raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, text)
        return record, partition

    def check(self, message: Message, key_header: str | None) -> None:
        """Raise HeadraceError where a message cannot be kept. `TopicStore`."""
        self._record(message, key_header)

    def _for_keyless(self, count: int) -> "Partition":
        """Return a partition that takes records, the same for all of a turn."""
        for step in range(count):
            index = (self._keyless_index + step) % count
            try:
                partition = self._topics.partition(self.topic, index)
            except ApiError:
                if step == count - 1:
                    raise
                continue
            if partition.refusal is None:
                break
        self._keyless_index = index
        self._keyless = True
        return partition

    def append(self, message: Message, key_header: str | None) -> None:
        """Keep a message. HeadraceError: as `_record`, or there is no room for it."""
        record, partition = self._record(message, key_header)
        if self._compressing_bytes > COMPRESSING_BYTES_MAX:
            raise HeadraceError(f"{COMPRESSING_BYTES_MAX} bytes wait to be compressed already")
        index = partition.topic_partition.partition
        batch = self._open.get(index)
        if batch is None or batch.size + record.size > batch.limit:
            if not self._filled:
                self._to_write(self)
                # What is published outside of a pass, a dead letter, is written soon as well.
                self._timer = self._clock.call_later(0, self.write)
            batch = self._open[index] = _Batch(index, min(BATCH_BYTES_MAX, _limit(partition)))
            self._filled.append(batch)
            self._unsettled[batch] = None
        batch.records.append(record.parts)
        batch.size += record.size

    def when_stored(self, done: StoredDone) -> None:
        """Tell `done` once all that was kept so far holds for good; False: some of it does not."""
        when_all(self._unsettled, done)

    # Writing

    def write(self) -> None:
        """Write what was kept."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        filled, self._filled = self._filled, []
        self._open.clear()
        if self._keyless:
            self._keyless = False
            self._keyless_index += 1
        for batch in filled:
            self._write(batch)

    def _write(self, batch: _Batch) -> None:
        before = self._compressing.get(batch.index)
        if before is not None:
            before.append(batch)
            self._compressing_bytes += batch.size
            return
        try:
            partition = self._topics.partition(self.topic, batch.index)
        except ApiError as error:
            self._settle(batch, error)
            return
        codec = stored_codec(partition.log.config)
        content = build_of_parts(batch.records, self._clock.wall_ms())
        if not codec:  # as it is, or uncompressed
            self._append(batch, partition, content)
            return
        level = level_of(partition.log.config, codec)
        self._compressing[batch.index] = deque()
        self._compressing_bytes += batch.size
        self._disk.run(
            lambda: recompress(content, codec, level), partial(self._compressed, batch, partition)
        )

    def _compressed(
        self, batch: _Batch, partition: "Partition", content: bytearray | BaseException
    ) -> None:
        """Append what a thread has compressed, then what waited for it."""
        waiting = self._compressing.pop(batch.index)
        self._compressing_bytes -= batch.size
        if isinstance(content, HeadraceError):
            self._settle(batch, content)
        elif isinstance(content, BaseException):
            raise content
        else:
            self._append(batch, partition, content)
        for following in waiting:
            self._compressing_bytes -= following.size
            self._write(following)

    def _append(self, batch: _Batch, partition: "Partition", content: bytes | bytearray) -> None:
        try:
            appended = partition.append_internal(content, now_ms=self._clock.wall_ms())
        except ApiError as error:
            self._settle(batch, error)
            return
        partition.traffic.records_in += len(batch.records)
        partition.traffic.bytes_in += len(content)
        partition.when_committed(appended.commit_offset, partial(self._settle, batch))

    def _settle(self, batch: _Batch, error: HeadraceError | None) -> None:
        """Tell who waits for a batch that it holds, or that it is not known to."""
        self._unsettled.pop(batch, None)
        if error is not None:
            _logger.error(
                "%d messages published by AMQP are not known to be in %s-%d, who asked for confirms"
                " is told: %s",
                len(batch.records), self.topic, batch.index, error,
            )  # fmt: skip
        waiting, batch.waiting = batch.waiting, []
        for stored in waiting:
            stored(error is None)


def _limit(partition: "Partition") -> int:
    """Return how large the records of one batch may be."""
    config = partition.log.config
    return min(config.max_message_bytes, config.segment_bytes) - HEADER_BYTES
