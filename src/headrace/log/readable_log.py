"""What of a log can be asked without changing it: its offsets, its batches, its epochs.

The half of `log.Log` that readers use; the other half appends, flushes and shortens. Only
`read_from_disk`, `serve_from_disk`, `offset_for_time`, `max_timestamp_offset` and
`aborted_transactions` may be called off the deciding thread (`Disk.run`): they change nothing but
what they load.
"""

import logging
from bisect import bisect_right
from typing import TYPE_CHECKING

from headrace.config.log_config import LogConfig
from headrace.log import lookup
from headrace.log.directory.log_dir_context import Shared
from headrace.log.leader_epochs import LeaderEpochs
from headrace.log.producers.producer_states import ProducerStates
from headrace.log.segment.batch_reader import NeedsDisk, ReadResult, read_batches
from headrace.log.segment.scan import BadBatch, Fetch, NotCached
from headrace.log.segment.segment import Segment
from headrace.log.segment.served_ranges import RANGE_BYTES_MIN, BatchRange, Served, stretch_from
from headrace.log.segment.transaction_index import AbortedTransaction
from headrace.log.unflushed import Unflushed
from headrace.model.errors import ApiError, CorruptLogError, ErrorCode
from headrace.model.nouns import LeaderEpoch, Offset, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.log.directory.durable_read_bounds import Slot

_logger = logging.getLogger(__name__)
_ENDS_MAX = 64


class ReadableLog:
    """One partition's log, as its readers see it."""

    def __init__(
        self,
        shared: Shared,
        directory: str,
        topic_partition: TopicPartition,
        topic_id: bytes,
        config: LogConfig,
    ) -> None:
        """An empty shell, filled by `recover`."""
        self.shared = shared
        self.directory = directory
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.config = config
        """May be set at any time; takes effect with the next append or retention."""
        self.start_offset = Offset(0)
        self.end_offset = Offset(0)
        self.flushed_offset = Offset(0)
        self.high_watermark = Offset(0)
        """The partition's to move; kept here for its checkpoint, and retention stays below it."""
        self.on_flushed: Callable[[Offset], None] | None = None
        """Told the new `flushed_offset` after every flush: moves the high watermark, no more."""
        self.on_readable: Callable[[], None] | None = None
        """Called once all logs of a flush have moved and readers of the files have been told."""
        self.producers = ProducerStates()
        self.closed = False
        self.snapshot_offset = Offset(-1)
        """Offset of the newest `.snapshot` there is."""
        self.last_flush_ms = 0
        self.truncations = 0
        """How often the log was cut short."""
        self._epochs = LeaderEpochs()
        self._epoch = -1
        self.segments: list[Segment] = []
        self._bases: list[Offset] = []
        self.bound: Slot | None = None
        """Where readers of the files are told how far they may go; `ReadBounds` has it."""
        self.unflushed = Unflushed()
        """What waits for the next flush besides the active segment."""
        self._ends: dict[int, tuple[Segment, int]] = {}
        self._reported: set[str] = set()

    def __repr__(self) -> str:
        return f"Log({self.topic_partition}, {self.start_offset}..{self.end_offset})"

    # --- read --------------------------------------------------------------------------------

    def read(
        self, offset: Offset, max_bytes: int, *, below: Offset, at_least_one: bool = True
    ) -> ReadResult | NeedsDisk:
        """Whole batches from the one that holds `offset` on, all of them below `below`.

        At most `max_bytes` of them, yet the first one whatever its size if `at_least_one`. Empty
        where there is nothing below `below` yet. From the page cache only.

        ApiError: OFFSET_OUT_OF_RANGE outside start..end, KAFKA_STORAGE_ERROR for bytes that are not
        what was written (said once in the log, with file and position).
        """
        if offset < self.start_offset or offset > self.end_offset:
            raise self._out_of_range(offset)
        if offset >= below:
            return ReadResult(b"", offset)
        try:
            return self._read(offset, max_bytes, below, at_least_one, True)
        except NotCached:
            return self._needs_disk(offset, max_bytes)

    def read_from_disk(
        self, offset: Offset, max_bytes: int, *, below: Offset, at_least_one: bool = True
    ) -> ReadResult:
        """`read`, waiting for the disk. For `Disk.run`."""
        if offset < self.start_offset or offset > self.end_offset:
            raise self._out_of_range(offset)
        if offset >= below:
            return ReadResult(b"", offset)
        try:
            return self._read(offset, max_bytes, below, at_least_one, False)
        except FileNotFoundError:
            # A segment was renamed away between its name being asked and its file being opened.
            return self._read(offset, max_bytes, below, at_least_one, False)

    def serve(
        self, offset: Offset, max_bytes: int, *, below: Offset, at_least_one: bool = True
    ) -> Served | NeedsDisk:
        """As `read`, for a client's answer: much data comes as a range of the file, read later."""
        try:
            found = self._range(offset, max_bytes, below, at_least_one, False)
        except NotCached:
            return self._needs_disk(offset, max_bytes)
        if found is not None:
            return found
        result = self.read(offset, max_bytes, below=below, at_least_one=at_least_one)
        return result if isinstance(result, NeedsDisk) else Served(*result)

    def serve_from_disk(
        self, offset: Offset, max_bytes: int, *, below: Offset, at_least_one: bool = True
    ) -> Served:
        """`serve`, waiting for the disk. For `Disk.run`; its range is for the deciding thread."""
        found = self._range(offset, max_bytes, below, at_least_one, True)
        if found is not None:
            return found
        return Served(
            *self.read_from_disk(offset, max_bytes, below=below, at_least_one=at_least_one)
        )

    def _needs_disk(self, offset: Offset, max_bytes: int) -> NeedsDisk:
        """What is read in now was not seen: neither by this reader nor by those behind it."""
        segment = self.segments[max(bisect_right(self._bases, offset) - 1, 0)]
        start = segment.index.lookup(offset) if segment.index.loaded else 0
        segment.sound.evicted(start, max_bytes)
        return NeedsDisk(offset)

    def _range(
        self, offset: Offset, max_bytes: int, below: Offset, at_least_one: bool, wait: bool
    ) -> Served | None:
        """The range that answers; None where that is for `read`: little data, none, damage."""
        if max_bytes < RANGE_BYTES_MIN or not self.start_offset <= offset < below:
            return None
        try:
            place = self._ends.get(offset) or self._find(offset, not wait)
        except (CorruptLogError, FileNotFoundError):
            return None
        if place is None:
            return None
        segment, position = place
        if segment.suspect or segment.size - position < RANGE_BYTES_MIN:
            return None
        limit = self._limit_of(segment)
        if wait and segment is self.segments[-1]:
            limit = Offset(below + 1)  # it may be growing now: to be ended by its index
        file = segment.file
        fetch: Fetch = file.read if wait else file.read_cached
        stretch = stretch_from(segment, position, max_bytes, below, limit, at_least_one, fetch)
        if stretch is None or stretch.end - position < RANGE_BYTES_MIN:
            return None
        if not wait:
            self._remember_end(stretch.next_offset, segment, stretch.end)
        return Served(BatchRange(self, segment, stretch, offset), stretch.next_offset)

    def _out_of_range(self, offset: Offset) -> ApiError:
        return ApiError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{self.topic_partition} holds {self.start_offset} to {self.end_offset}, not {offset}",
        )

    def _read(
        self, offset: Offset, max_bytes: int, below: Offset, at_least_one: bool, cached: bool
    ) -> ReadResult:
        try:
            place = self._ends.get(offset) or self._find(offset, cached)
            if place is None:
                return ReadResult(b"", offset)
            segment, position = place
            file = segment.file
            fetch: Fetch = file.read_cached if cached else file.read
            data, following = read_batches(
                segment,
                position,
                offset,
                max_bytes,
                below,
                self._limit_of(segment),
                at_least_one,
                fetch,
            )
        except BadBatch as error:
            raise self.unreadable(error) from error
        if data and cached:  # a worker thread leaves no notes: the log may have rolled meanwhile
            self._remember_end(following, segment, position + len(data))
        return ReadResult(data, following)

    def _limit_of(self, segment: Segment) -> Offset:
        if segment is self.segments[-1]:
            return self.end_offset
        at = bisect_right(self._bases, segment.base_offset)
        return self._bases[at] if at < len(self._bases) else self.end_offset

    def _find(self, offset: Offset, cached: bool) -> tuple[Segment, int] | None:
        segments = self.segments
        at = max(bisect_right(self._bases, offset) - 1, 0)
        while at < len(segments):
            segment = segments[at]
            if segment.size:
                if cached and segment is not segments[-1] and not segment.index.loaded:
                    raise NotCached  # a full index takes a tenth of a second to load
                file = segment.file
                found = segment.find(offset, file.read_cached if cached else file.read)
                if found is not None:
                    return segment, found[0]
            at += 1
        return None

    def _remember_end(self, following: Offset, segment: Segment, position: int) -> None:
        """Readers go on where they ended: they need no index then."""
        ends = self._ends
        if position >= segment.size and segment is not self.segments[-1]:
            return
        if len(ends) >= _ENDS_MAX:
            ends.clear()
        ends[following] = (segment, position)

    def say_once(self, what: str) -> bool:
        """Whether `what` has not been said of this log yet; from now on it has."""
        if what in self._reported:
            return False
        self._reported.add(what)
        return True

    def unreadable(self, error: CorruptLogError) -> ApiError:
        """Say once what is damaged, and count it; returns what the client is told."""
        text = str(error)
        where = f"{error.path}:{error.position}" if isinstance(error, BadBatch) else text
        if self.say_once(where):
            self.shared.damaged += 1
            _logger.error(
                "%s: damaged: %s. Reads of it get KAFKA_STORAGE_ERROR, those before and behind it "
                "are served. Restore the file from a copy, or move the consumers on",
                self.topic_partition, text,
            )  # fmt: skip
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the data at this offset is damaged")

    # --- search ------------------------------------------------------------------------------

    def offset_for_time(self, timestamp: int) -> tuple[int, Offset, LeaderEpoch] | None:
        """(timestamp, offset, epoch) of the first record not older than `timestamp`; blocking.

        Record by record inside the batch that holds it, which is decompressed for it.
        """
        return lookup.offset_for_time(self, timestamp)

    def max_timestamp_offset(self) -> tuple[int, Offset, LeaderEpoch] | None:
        """(timestamp, offset, epoch) of the newest record (KIP-734), or None; blocking."""
        return lookup.max_timestamp_offset(self)

    def aborted_transactions(self, start: Offset, end: Offset) -> list[AbortedTransaction]:
        """Aborted transactions with records in [start, end), for readers of committed data."""
        return lookup.aborted_transactions(self, start, end)

    def last_stable_offset(self, high_watermark: Offset) -> Offset:
        """Where readers of committed data end."""
        return self.producers.last_stable_offset(high_watermark)

    def first_unstable_offset(self) -> Offset | None:
        """First offset of the oldest open transaction."""
        return self.producers.first_unstable_offset()

    # --- epochs -------------------------------------------------------------------------------

    @property
    def epochs(self) -> LeaderEpochs:
        """Which epoch began where. Changed through `assign_epoch` only."""
        return self._epochs

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> tuple[LeaderEpoch, Offset]:
        """The greatest epoch not above `epoch` and its end; (-1, -1) where it is not known."""
        return self._epochs.end_offset_for(epoch, self.end_offset)
