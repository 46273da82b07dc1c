"""Gaps between a log's offsets: allowed ones (compaction, queues) and ones that are data loss.

Each segment of a log begins where the one before ends, unless compaction removed the last records
before it or a queue's middle segments were deleted (`directory.thinning`). The offset below which
such gaps may exist is in `headrace-gap-offset-checkpoint`, written before either begins, and in
Kafka's `cleaner-offset-checkpoint`, written after a compaction. Any other gap is a loss: the log is
not opened (CorruptLogError names the offsets). Kafka would open it without notice.

A directory that Kafka wrote lacks our file; a Kafka killed while it compacted, or one that
replicated a compacted log, leaves gaps above its checkpoint. There a gap is accepted if the topic
is compacted or the batches show compaction; it is logged and added to our file.
"""

import logging
from itertools import pairwise

from headrace.log import file_names, text_files
from headrace.log.log import Log
from headrace.log.recovery.known import Known
from headrace.log.segment.indexes import RELATIVE_OFFSET_MAX
from headrace.log.segment.scan import BadBatch, headers
from headrace.log.segment.segment import Segment
from headrace.model.errors import CorruptLogError
from headrace.model.nouns import LeaderEpoch, Offset, TopicPartition
from headrace.ports.callbacks import Done
from headrace.ports.disk import Disk, DiskFile
from headrace.record.batch_layout import OVERHEAD_BYTES

_logger = logging.getLogger(__name__)

AHEAD_OFFSETS = 1 << 20
"""Offsets beyond a gap copied from a leader below which further gaps are allowed, too.

The file is then not rewritten for each gap.
"""
FILE_NAME = "headrace-gap-offset-checkpoint"
FILE_NAME_NOTED = "headrace-noted-gap-offset-checkpoint"
WHAT_TO_DO = (
    "the partition is out of service and its files are unchanged: stop the broker; if another "
    "replica of the partition is in sync, delete this directory, and the broker fetches it; else "
    "restore the directory from a copy, or see `headrace log verify` and `headrace log repair`"
)


class Gaps:
    """The offsets of one directory below which its logs may have gaps, stored in two files.

    One file is written by a thread, durably, before a compaction begins or middle segments are
    deleted. The other is written on the deciding thread for gaps that a follower appends and that
    truncations leave. So each file has one writer.
    """

    __slots__ = (
        "_disk", "_noted", "_path", "_path_noted", "_waiting", "_written", "entries", "known",
        "writing",
    )  # fmt: skip

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._path = f"{directory}/{FILE_NAME}"
        self._path_noted = f"{directory}/{FILE_NAME_NOTED}"
        self._written: bytes | None = None
        self.entries: dict[TopicPartition, Offset] = {}
        self._noted: dict[TopicPartition, Offset] = {}
        self.known = False
        """Whether the first file existed: then it covers every gap that Headrace made."""
        self.writing = False
        """Whether a thread is writing the first file."""
        self._waiting: list[Done[OSError | None]] = []

    def read(self) -> None:
        """Read both files if they exist and are valid. Blocking. Raises OSError."""
        self._written = text_files.read_file(self._disk, self._path)
        noted = text_files.read_file(self._disk, self._path_noted)
        try:
            if self._written is not None:
                self.entries = text_files.read_offsets(self._written, self._path)
            if noted is not None:
                self._noted = text_files.read_offsets(noted, self._path_noted)
        except CorruptLogError as error:
            self._written = None
            _logger.warning(
                "%s; the file is treated as lost: this start accepts gaps in compacted logs",
                error,
            )
        self.known = self._written is not None

    def below(self, partition: TopicPartition) -> Offset:
        """Return the offset below which the partition may have gaps."""
        start = Offset(0)
        return max(self.entries.get(partition, start), self._noted.get(partition, start))

    def allow(self, partition: TopicPartition, offset: Offset) -> None:
        """Allow gaps in the partition below `offset`; durable after `write`."""
        self.entries[partition] = Offset(max(offset, self.below(partition)))

    def note(
        self, partition: TopicPartition, below: Offset, *, ahead: bool = False
    ) -> DiskFile | None:
        """Allow a gap that is about to be written; return the file to flush, or None if covered.

        The directory must be flushed too. `ahead`: more gaps may follow, so a larger offset is
        stored and the file is not written for each. Raises OSError.
        """
        if below <= self.below(partition):
            return None
        if ahead:
            below = Offset((below // AHEAD_OFFSETS + 1) * AHEAD_OFFSETS)
        self._noted[partition] = below
        file = self._disk.open(f"{self._path_noted}.tmp", create=True)
        file.truncate(0)
        file.write_at(0, (text_files.write_offsets(self._noted),))
        self._disk.rename(f"{self._path_noted}.tmp", self._path_noted)
        return file

    def forget(self, partition: TopicPartition) -> None:
        """Remove a deleted partition; the files change when they are next written."""
        self.entries.pop(partition, None)
        self._noted.pop(partition, None)

    def content(self) -> bytes:
        """Encode `entries` as the content of `headrace-gap-offset-checkpoint`."""
        return text_files.write_offsets(dict(self.entries))

    def write_soon(self, done: Done[OSError | None]) -> None:
        """Write the first file on a thread, one write at a time; `done` gets None once it is
        durable."""
        self._waiting.append(done)
        if not self.writing:
            self._write_next()

    def _write_next(self) -> None:
        waiting, self._waiting = self._waiting, []
        content = self.content()
        self.writing = True

        def written(result: BaseException | None) -> None:
            self.writing = False
            if result is not None and not isinstance(result, OSError):
                raise result
            for done in waiting:
                done(result)
            if self._waiting and not self.writing:
                self._write_next()

        self._disk.run(lambda: self.write(content), written)

    def write(self, content: bytes) -> None:
        """Replace the first file if its content differs. Blocking. Raises OSError."""
        if content != self._written:
            self._disk.replace(self._path, content)
            self._written = content
            self.known = True


def check_whole(log: Log, known: Known) -> None:
    """Refuse a log that lacks a segment noted in the list of unchanged logs.

    Raises CorruptLogError. After a clean stop all noted segments must exist. Otherwise retention
    may have deleted the first ones and truncation the last ones, and compaction those between if it
    has begun since.
    """
    if not log.segments:
        return
    if known.seen_exact:
        _check_all_seen(log, known)
    elif known.gaps_known and known.seen_gaps == known.gaps_below:
        _check_seen_between(log, known)


def _check_all_seen(log: Log, known: Known) -> None:
    present = {segment.base_offset: segment for segment in log.segments}
    for at, (base, size) in enumerate(known.seen):
        segment = present.get(Offset(base))
        if segment is None:
            raise _gone(log, known, at)
        if segment.size < size:
            raise CorruptLogError(
                f"{segment.path(file_names.LOG)}: {segment.size} bytes, expected at least {size};"
                f" {WHAT_TO_DO}"
            )


def _check_seen_between(log: Log, known: Known) -> None:
    """Check the noted segments up to the first that was truncated and appended to since."""
    sizes = {segment.base_offset: segment.size for segment in log.segments}
    first, last = log.segments[0].base_offset, log.segments[-1].base_offset
    if first not in {base for base, _ in known.seen}:
        return  # the log was emptied and began again
    for at, (base, size) in enumerate(known.seen):
        if first < base < last and base not in sizes:
            raise _gone(log, known, at)
        if base >= first and sizes.get(Offset(base)) != size:
            return  # truncated here


def _gone(log: Log, known: Known, at: int) -> CorruptLogError:
    """Return the error for the missing segment at index `at` of `known.seen`."""
    base, ends = known.seen[at][0], known.seen[at + 1 :]
    to = f"{ends[0][0] - 1}" if ends else "the log's end"
    return missing(log, base, to, f"{_name(base)} does not exist")


def check_first(log: Log, known: Known, saved: list[tuple[LeaderEpoch, Offset]] | None) -> None:
    """Refuse a log that begins above its first leader epoch: its oldest segments are missing.

    Whatever moves a log's start trims the epochs first.
    """
    if not known.own_files or not saved or not log.segments:
        return
    first, base = saved[0][1], log.segments[0].base_offset
    if first < base:
        raise missing(log, first, base - 1, f"the first segment is {_name(base)}")


def check_joined(log: Log, last: int, known: Known) -> None:
    """Refuse a log with a gap between its segments up to index `last`.

    Raises CorruptLogError or OSError. A segment whose end is unreadable because of damage is
    skipped: reads report it.
    """
    joined = {pair: other[0] for pair, other in pairwise(known.seen)}
    for at in range(1, last + 1):
        before, segment = log.segments[at - 1], log.segments[at]
        base = segment.base_offset
        if joined.get((before.base_offset, before.size)) == base:
            continue
        end = end_of_sealed(before)
        if end is None or end == base or gap_allowed(log, end, segment, known):
            continue
        raise not_joined(log, end, segment)


def not_joined(log: Log, end: Offset, segment: Segment) -> CorruptLogError:
    """Return the error for a segment that does not begin where the log before it ends."""
    base = segment.base_offset
    if end > base:
        return CorruptLogError(
            f"{segment.path(file_names.LOG)} must begin at {base}, the segment before it ends at "
            f"{end}; {WHAT_TO_DO}"
        )
    return missing(log, end, base - 1, f"no segment ends where {_name(base)} begins")


def missing(log: Log, first: int, last: object, why: str) -> CorruptLogError:
    """Return the error for missing offsets `first` to `last`."""
    return CorruptLogError(
        f"{log.directory}: offsets {first} to {last} are missing: {why}; {WHAT_TO_DO}"
    )


def _name(base: int) -> str:
    return file_names.segment_file(base, file_names.LOG)


def gap_allowed(log: Log, end: Offset, segment: Segment, known: Known) -> bool:
    """Return whether an offset gap between `end` and `segment` is a result of compaction."""
    base = segment.base_offset
    if end > base:
        return False
    if base <= known.gaps_below:
        return True
    if known.gaps_known or not (log.config.compacted or known.gaps_below or _thinned(log)):
        return False
    _logger.warning(
        "%s: offsets %d to %d do not exist: accepted as removed by compaction",
        log.directory, end, base - 1,
    )  # fmt: skip
    log.context.events.allow_gap(log.topic_partition, base)
    return True


def _thinned(log: Log) -> bool:
    """Return whether any batch of the log shows that compaction removed records."""
    for segment in log.segments:
        expected = segment.base_offset
        where = segment.path(file_names.LOG)
        try:
            for _, header in headers(segment.file.read, 0, segment.size, where):
                whole = header.record_count == header.last_offset_delta + 1
                if header.base_offset > expected or not whole:
                    return True
                expected = Offset(header.base_offset + header.last_offset_delta + 1)
        except BadBatch:
            continue
        finally:
            segment.close()
    return False


def end_of(segment: Segment) -> Offset:
    """Return a segment's end offset, read from the last index entry to the end of the file."""
    if not segment.size:
        return segment.base_offset
    last_possible = Offset(segment.base_offset + RELATIVE_OFFSET_MAX)
    return _walk(segment, segment.start_of(last_possible, segment.file.read))


def end_of_sealed(segment: Segment) -> Offset | None:
    """Return a sealed segment's end offset from its last index entry; None if it is damaged."""
    if not segment.size:
        return segment.base_offset
    try:
        indexed, position = segment.index.peek()
        if 0 < position < segment.size and indexed >= segment.base_offset:
            try:
                return _walk(segment, position)
            except BadBatch:
                pass
        return end_of(segment)
    except BadBatch:
        return None
    finally:
        segment.close()


def _walk(segment: Segment, position: int) -> Offset:
    end, since = segment.base_offset, 0
    where = segment.path(file_names.LOG)
    for _, header in headers(segment.file.read, position, segment.size, where):
        end = Offset(header.base_offset + header.last_offset_delta + 1)
        since += header.batch_length + OVERHEAD_BYTES
    segment.bytes_since_index = since
    return end
