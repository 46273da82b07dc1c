"""Writer of messages that exchanges store in a Kafka topic: records by key in its partitions.

Messages of one pass are one batch for each partition, written by `write` or at the end of the event
loop's turn, like a produce with acks=all: a message is stored once the high watermark has passed
it. If the topic's `compression.type` names a codec, a thread compresses the batches, in their
order.

On the deciding thread. The only state of a topic are messages on their way to it.
"""

import logging
from collections import deque
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Protocol

from headrace.model.errors import ApiError, ErrorCode, HeadraceError
from headrace.queue_stores.message_store import StoredDone, when_all
from headrace.record.batch import recompress
from headrace.record.batch_layout import HEADER_BYTES
from headrace.record.key_partition import partition_of
from headrace.record.record_parts import Parts, build_of_parts
from headrace.record.stored_codec import level_of, stored_codec
from headrace.vhosts.remote_partition import RemotePartition
from headrace.vhosts.topic_records import TopicRecord, TopicRecords
from headrace.wire.amqp.content import Message

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.config.log_config import LogConfig
    from headrace.ports.clock import Clock, Timer
    from headrace.ports.disk import Disk

_logger = logging.getLogger(__name__)

BATCH_BYTES_MAX = 1024 * 1024
"""Bytes of a batch at most; a partition's messages beyond become several batches."""
COMPRESSING_BYTES_MAX = 64 * 1024 * 1024
"""Bytes of one topic that wait for compression; above, more messages are refused."""
_KEYS_KEPT_MAX = 4096

_partition_of = lru_cache(maxsize=_KEYS_KEPT_MAX)(partition_of)


class Topics(Protocol):
    """The lookup of topics and of their partitions."""

    def partition_count(self, topic: str) -> int:
        """Return the number of a topic's partitions; 0: no such topic exists."""

    def partition(self, topic: str, index: int) -> "Partition | RemotePartition":
        """Return a partition that this broker leads, or another one; raise ApiError."""


class _Batch:
    """Records for one partition that are not committed yet."""

    __slots__ = ("index", "limit", "records", "size", "waiting")

    def __init__(self, index: int, limit: int) -> None:
        self.index = index
        self.limit = limit
        self.records: list[Parts] = []
        self.size = 0
        self.waiting: list[StoredDone] = []

    def when_stored(self, done: StoredDone) -> None:
        """Call `done` once the batch is committed; False: it is not known to be.

        Implements `Waited`.
        """
        self.waiting.append(done)


class TopicWriter:
    """The writer of messages to one topic."""

    def __init__(
        self,
        topic: str,
        topics: Topics,
        disk: "Disk",
        clock: "Clock",
        to_write: Callable[["TopicWriter"], None],
    ) -> None:
        """Create the writer of a topic.

        `to_write` has `write` called at the end of the pass, if there is one.
        """
        self.topic = topic
        self._topics = topics
        self._disk = disk
        self._clock = clock
        self._to_write = to_write
        self._records = TopicRecords()
        self._open: dict[int, _Batch] = {}
        """Batches that accept more records, by partition."""
        self._filled: list[_Batch] = []
        """Batches that are not written yet, in order."""
        self._unsettled: dict[_Batch, None] = {}
        self._compressing: dict[int, deque[_Batch]] = {}
        """Batches by partition that wait behind one being compressed."""
        self._compressing_bytes = 0
        self._timer: Timer | None = None
        self._keyless_index = 0
        self._keyless = False

    @property
    def is_busy(self) -> bool:
        """Whether messages are on their way to the topic."""
        return bool(self._unsettled)

    def _record(
        self, message: Message, key_header: str | None
    ) -> tuple[TopicRecord, "Partition | RemotePartition"]:
        """Return a message as a record, and its partition.

        Raises ApiError: UNKNOWN_TOPIC_OR_PARTITION, INVALID_RECORD (no key, and the topic is
        compacted), MESSAGE_TOO_LARGE, or why the partition accepts nothing. Raises Malformed for
        undecodable headers.
        """
        count = self._topics.partition_count(self.topic)
        if not count:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        record = self._records.record(message, key_header)
        if record.key is not None:
            partition = self._topics.partition(self.topic, _partition_of(record.key, count))
        else:
            partition = self._for_keyless(count)
        config = _accepting(partition)
        if config.compacted and record.key is None:
            raise ApiError(ErrorCode.INVALID_RECORD, f"'{self.topic}' is compacted")
        limit = _limit(config)
        if record.size > limit:
            text = f"a record of {record.size} bytes, {limit} are allowed"
            raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, text)
        return record, partition

    def check(self, message: Message, key_header: str | None) -> None:
        """Raise HeadraceError if a message cannot be stored. Implements `TopicStore`."""
        self._record(message, key_header)

    def _for_keyless(self, count: int) -> "Partition | RemotePartition":
        """Return a partition that accepts records without a key, the same for all of a pass."""
        for step in range(count):
            index = (self._keyless_index + step) % count
            try:
                partition = self._topics.partition(self.topic, index)
            except ApiError:
                if step == count - 1:
                    raise
                continue
            if isinstance(partition, RemotePartition) or partition.refusal is None:
                break
        self._keyless_index = index
        self._keyless = True
        return partition

    def append(self, message: Message, key_header: str | None) -> None:
        """Append a message; raise HeadraceError as `_record`, or if too many wait."""
        record, partition = self._record(message, key_header)
        if self._compressing_bytes > COMPRESSING_BYTES_MAX:
            raise HeadraceError(
                f"more than {COMPRESSING_BYTES_MAX} bytes of messages for the topic wait for"
                " compression: publish again later"
            )
        index = partition.topic_partition.partition
        if isinstance(partition, RemotePartition) and partition.is_full:
            raise HeadraceError(
                f"too many messages wait for the leader of {self.topic}-{index}: publish again"
                " later"
            )
        batch = self._open.get(index)
        if batch is None or batch.size + record.size > batch.limit:
            if not self._filled:
                self._to_write(self)
                # Messages published outside of a pass, as dead letters, are written soon, too.
                self._timer = self._clock.call_later(0, self.write)
            limit = _limit(_accepting(partition))
            batch = self._open[index] = _Batch(index, min(BATCH_BYTES_MAX, limit))
            self._filled.append(batch)
            self._unsettled[batch] = None
        batch.records.append(record.parts)
        batch.size += record.size

    def when_stored(self, done: StoredDone) -> None:
        """Call `done(True)` once all messages appended so far are committed, or `done(False)`."""
        when_all(self._unsettled, done)

    # Writing

    def write(self) -> None:
        """Write the appended batches to the topic's partitions."""
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
        if isinstance(partition, RemotePartition):
            partition.append(batch.records, batch.size, partial(self._settle, batch))
            return
        codec = stored_codec(partition.log.config)
        content = build_of_parts(batch.records, self._clock.wall_ms())
        if not codec:  # as the producer's, or uncompressed
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
        """Append a compressed batch, then write those that waited for it."""
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
        """Call the callbacks that wait for a batch, with whether it is committed."""
        self._unsettled.pop(batch, None)
        if error is not None:
            _logger.error(
                "%d AMQP messages for %s-%d may not be stored: %s. Publishers that use confirms get"
                " basic.nack",
                len(batch.records), self.topic, batch.index, error,
            )  # fmt: skip
        waiting, batch.waiting = batch.waiting, []
        for stored in waiting:
            stored(error is None)


def _accepting(partition: "Partition | RemotePartition") -> "LogConfig":
    """Return the settings of a partition; raise ApiError if it accepts nothing now."""
    if isinstance(partition, RemotePartition):
        return partition.config
    if partition.refusal is not None:
        raise ApiError(partition.refusal)
    return partition.log.config


def _limit(config: "LogConfig") -> int:
    """Return the maximum bytes of records in one batch of a partition."""
    return min(config.max_message_bytes, config.segment_bytes) - HEADER_BYTES
