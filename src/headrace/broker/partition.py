"""One partition as its leader sees it: who may append, when that is true for good, what may be read.

* The high watermark is the offset below which every in-sync replica holds the log on disk. With
  `flush_on_ack` (the default) it never passes `log.flushed_offset`; without, it is the log's end.
* `append` says what must become true before acks=all may be answered: `Appended.commit_offset`.
  `when_committed` calls back when it is, in the order of asking.
* Readers see whole batches below the high watermark, or below the last stable offset.

Everything here runs on the one deciding thread and never waits.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from headrace.log.flusher import Flusher
from headrace.log.log import Log, NeedsDisk, Origin, ReadResult
from headrace.log.producers import Duplicate
from headrace.model.errors import ApiError, ErrorCode, StorageError
from headrace.model.nouns import INTERNAL_TOPICS, LeaderEpoch, Offset, TopicPartition
from headrace.wire.kafka.batch import BatchHeader, parse_header
from headrace.world.disk import Buffer

ACKS_ALL = -1
TRANSACTIONAL = 0x10
_PRODUCER_ID = BatchHeader._fields.index("producer_id")
_ATTRIBUTES = BatchHeader._fields.index("attributes")

Committed = Callable[[ApiError | None], None]


class Appended(NamedTuple):
    """Where a batch lies, and when that is settled."""

    base_offset: Offset
    last_offset: Offset
    append_time_ms: int
    """The broker's time where the topic stamps it (LogAppendTime), else -1."""
    commit_offset: Offset
    """acks=all is true once the high watermark has reached this."""
    duplicate: bool
    """The batch had been appended before: the offsets are the first time's."""


class Partition:
    """A partition led by this broker."""

    __slots__ = (
        "_config",
        "_flush_soon",
        "_next_reader",
        "_readers",
        "_refusal",
        "_too_few_replicas",
        "_waiting",
        "flush_on_ack",
        "high_watermark",
        "internal",
        "isr_size",
        "leader_epoch",
        "log",
        "topic_partition",
    )

    def __init__(
        self,
        log: Log,
        *,
        leader_epoch: LeaderEpoch,
        flusher: Flusher,
        flush_on_ack: bool = True,
        isr_size: int = 1,
    ) -> None:
        """Lead `log` from its end on under `leader_epoch`, which must be greater than any before."""

    def append(
        self, batch: memoryview, header: BatchHeader, *, now_ms: int, required_acks: int = ACKS_ALL
    ) -> Appended:
        """Append a client's checked batch (`wire.kafka.batch.check_produced`), stamped in place.

        `batch` is written before this returns and not kept. A batch that the last five of its
        producer contain is not written again: its first offsets are the answer.

        ApiError: KAFKA_STORAGE_ERROR, NOT_LEADER_OR_FOLLOWER, INVALID_TOPIC_EXCEPTION (internal
        topics), NOT_ENOUGH_REPLICAS (acks=all only), INVALID_TXN_STATE (transactional batches: no
        transaction can be open), OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, and what
        `Log.append` refuses (MESSAGE_TOO_LARGE, INVALID_TIMESTAMP, …).
        """
        raise NotImplementedError

    def append_internal(self, batch: Buffer, *, now_ms: int) -> Appended:
        """Append a coordinator's own batch (`wire.kafka.batch.build`), to any topic.

        ApiError: KAFKA_STORAGE_ERROR, NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS.
        """
        raise NotImplementedError

    def when_committed(self, commit_offset: Offset, callback: Committed) -> None:
        """Call `callback(None)` once the high watermark has reached `commit_offset`: now if it has.

        Callbacks go out in the order of asking. If the log fails first: `callback(ApiError)`.
        """

    def read(
        self,
        offset: Offset,
        max_bytes: int,
        *,
        read_committed: bool = False,
        at_least_one: bool = True,
    ) -> ReadResult | NeedsDisk:
        """Whole batches from the one that holds `offset` on, below what this reader may see.

        Empty between the readable end and the log's end. ApiError: OFFSET_OUT_OF_RANGE outside the
        log, KAFKA_STORAGE_ERROR.
        """
        raise NotImplementedError

    def watch_readable(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback()` whenever more may have become readable, or the partition failed.

        Until cancelled by what is returned. The callback must not append.
        """
        raise NotImplementedError
