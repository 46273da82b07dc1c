"""Choose the log to compact, the offset range, and the segments to merge (LogCleanerManager).

Nothing is changed. A segment's greatest timestamp may be read from its time index, once, and only
if the topic sets a compaction lag.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from headrace.log.segment.indexes import RELATIVE_OFFSET_MAX
from headrace.model.nouns import Offset

if TYPE_CHECKING:
    from headrace.log.log import Log
    from headrace.log.segment.segment import Segment

NEVER_MS = (1 << 63) - 1
GROUP_SEGMENTS_MAX = 64
"""Most segments merged into one: the swap renames each of them on the event loop.

Kafka has no such limit; the next compaction merges the results.
"""


class Cleanable(NamedTuple):
    """A log with segments that may be compacted, and how much of it is dirty."""

    log: "Log"
    first_dirty: Offset
    upper: Offset
    """The first uncleanable offset, at which a segment begins."""
    clean_bytes: int
    dirty_bytes: int
    overdue: bool
    """Whether its oldest uncompacted record is older than max.compaction.lag.ms."""

    @property
    def ratio(self) -> float:
        """Dirty bytes as a share of all compactable bytes, 0 to 1."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    @property
    def due(self) -> bool:
        """Whether the log exceeds min.cleanable.dirty.ratio or is overdue."""
        if self.overdue and self.dirty_bytes > 0:
            return True
        return self.ratio > self.log.config.min_cleanable_dirty_ratio


def first_dirty_offset(log: "Log", checkpoint: Offset | None) -> Offset:
    """Return the end of the last compaction; the log's start if it is unknown or out of range."""
    if checkpoint is None or not log.start_offset <= checkpoint <= log.end_offset:
        return log.start_offset
    return checkpoint


def cleanable(
    log: "Log", checkpoint: Offset | None, now_ms: int, hold: Offset | None = None
) -> Cleanable | None:
    """Return what of `log` could be compacted now, or None.

    Excluded: the active segment, undecided transactions, records above the high watermark or not
    flushed, records from offset `hold` on, records younger than min.compaction.lag.ms.
    """
    segments = log.segments
    if len(segments) < 2:
        return None
    first_dirty = first_dirty_offset(log, checkpoint)
    bound = min(
        log.last_stable_offset(log.high_watermark),
        log.flushed_offset,
        segments[-1].base_offset,
        *(() if hold is None else (hold,)),
    )
    dirty = [
        segment for segment, following in pairwise(segments) if following.base_offset > first_dirty
    ]
    config = log.config
    if config.min_compaction_lag_ms > 0:
        bound = min(bound, _first_young(dirty, now_ms - config.min_compaction_lag_ms, bound))
    upper = _floor(segments, bound)
    if upper <= segments[0].base_offset:
        return None
    return Cleanable(
        log,
        first_dirty,
        Offset(max(first_dirty, upper)),
        sum(segment.size for segment in segments if segment.base_offset < first_dirty),
        sum(segment.size for segment in dirty if segment.base_offset < upper),
        _overdue(dirty, now_ms, config.max_compaction_lag_ms),
    )


def _first_young(dirty: "Sequence[Segment]", until_ms: int, bound: Offset) -> Offset:
    for segment in dirty:
        if segment.largest_timestamp() > until_ms:
            return segment.base_offset
    return bound


def _floor(segments: "Sequence[Segment]", bound: Offset) -> Offset:
    """Return the base offset of the segment that contains `bound`, at least the first one's."""
    floor = segments[0].base_offset
    for segment in segments:
        if segment.base_offset > bound:
            break
        floor = segment.base_offset
    return floor


def _overdue(dirty: "Sequence[Segment]", now_ms: int, lag_ms: int) -> bool:
    if lag_ms >= NEVER_MS:
        return False
    for segment in dirty:
        segment.load_first_timestamp()
        if 0 < (segment.first_timestamp or 0) < now_ms - lag_ms:
            return True
    return False


def filthiest(found: Sequence[Cleanable]) -> Cleanable | None:
    """Return the log with the largest dirty share among those that are due, or None."""
    return max(
        (candidate for candidate in found if candidate.due),
        key=lambda candidate: candidate.ratio,
        default=None,
    )


class Size(NamedTuple):
    """The sizes of a segment, for grouping."""

    base_offset: int
    log_bytes: int
    index_bytes: int
    time_index_bytes: int


def grouped(
    segments: Sequence[Size], upper: int, segment_bytes: int, index_bytes: int
) -> list[list[Size]]:
    """Group segments that become one: as many as fit a segment's sizes and offset range.

    As Kafka's Cleaner.groupSegmentsBySize. `upper`: the last segment ends here at the latest.
    """
    groups: list[list[Size]] = []
    for at, segment in enumerate(segments):
        end = segments[at + 1].base_offset if at + 1 < len(segments) else upper
        if groups and _fits(groups[-1], segment, end, segment_bytes, index_bytes):
            groups[-1].append(segment)
        else:
            groups.append([segment])
    return groups


def _fits(group: list[Size], segment: Size, end: int, segment_bytes: int, index_bytes: int) -> bool:
    return (
        len(group) < GROUP_SEGMENTS_MAX
        and sum(other.log_bytes for other in group) + segment.log_bytes <= segment_bytes
        and sum(other.index_bytes for other in group) + segment.index_bytes <= index_bytes
        and sum(other.time_index_bytes for other in group) + segment.time_index_bytes <= index_bytes
        and (segment.log_bytes == 0 or end - 1 - group[0].base_offset <= RELATIVE_OFFSET_MAX)
    )
