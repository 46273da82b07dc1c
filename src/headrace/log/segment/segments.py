"""`Segments`: a log's segments, oldest first, and the search for the segment of an offset."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import overload

from headrace.config.log_config import LogConfig
from headrace.log.segment.scan import NotCached
from headrace.log.segment.segment import Segment
from headrace.model.nouns import Offset
from headrace.ports.clock import Random
from headrace.ports.disk import Disk

_ENDS_MAX = 64


class Segments(Sequence[Segment]):
    """A log's segments, oldest first, searched by offset; `active`, the last one, takes appends.

    Changed on the deciding thread only. Readers on other threads fetch the list before the base
    offsets: with an old list and new base offsets they begin too early at worst, never too late.
    """

    __slots__ = (
        "_bases",
        "_directory",
        "_disk",
        "_list",
        "_random",
        "active",
        "ends",
        "first_base",
    )

    active: Segment
    """The last segment. Unset before the first `add` or `replace`."""
    first_base: Offset
    """Base offset of the oldest segment."""

    def __init__(self, disk: Disk, random: Random, directory: str) -> None:
        self._disk = disk
        self._random = random
        self._directory = directory
        self._list: list[Segment] = []
        self._bases: list[Offset] = []
        self.ends: dict[int, tuple[Segment, int]] = {}
        """Cache: next offset of a recent read to (segment, position), which spares its `find`."""

    # --- as a sequence -----------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._list)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._list)

    @overload
    def __getitem__(self, at: int) -> Segment: ...
    @overload
    def __getitem__(self, at: slice) -> list[Segment]: ...
    def __getitem__(self, at: int | slice) -> Segment | list[Segment]:
        return self._list[at]

    # --- changing ----------------------------------------------------------------------------

    def make(self, base: Offset, config: LogConfig) -> Segment:
        """Return a new Segment object of this log; it has no files yet and is not in the list."""
        jitter = min(config.segment_jitter_ms, config.segment_ms)
        return Segment(
            self._disk,
            self._directory,
            base,
            index_bytes_max=config.segment_index_bytes,
            jitter_ms=int(self._random.uniform(0, jitter)) if jitter > 0 else 0,
        )

    def replace(self, segments: list[Segment]) -> None:
        """Replace the whole list by `segments`, oldest first."""
        self._bases = [segment.base_offset for segment in segments]
        self._list = segments
        if segments:
            self.active = segments[-1]
            self.first_base = segments[0].base_offset
        self.ends.clear()

    def add(self, segment: Segment) -> None:
        """Add a new segment at the end and make it active."""
        if not self._list:
            self.first_base = segment.base_offset
        self._list.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment
        # A reader at the end of the old segment continues in the new one.
        self.ends.clear()

    def drop_oldest(self, count: int) -> list[Segment]:
        """Remove the oldest `count` segments from the list and return them; files are unchanged."""
        gone = self._list[:count]
        self.replace(self._list[count:])
        return gone

    # --- searching ---------------------------------------------------------------------------

    def number_of(self, offset: Offset) -> int:
        """Return the index of the segment that covers `offset`."""
        return max(bisect_right(self._bases, offset) - 1, 0)

    def limit_of(self, segment: Segment, log_end: Offset) -> Offset:
        """Return the end offset of `segment`: the next one's base offset, or the log's end."""
        if segment is self._list[-1]:
            return log_end
        at = bisect_right(self._bases, segment.base_offset)
        return self._bases[at] if at < len(self._bases) else log_end

    def find(self, offset: Offset, cached: bool) -> tuple[Segment, int] | None:
        """Return segment and position of the batch that contains `offset`, or of the next batch.

        None if the log ends before. NotCached if `cached` allows the page cache only.
        """
        segments = self._list
        at = max(bisect_right(self._bases, offset) - 1, 0)
        while at < len(segments):
            segment = segments[at]
            if segment.size:
                if cached and segment is not segments[-1] and not segment.index.loaded:
                    raise NotCached  # loading a full index takes a tenth of a second
                file = segment.file
                found = segment.find(offset, file.read_cached if cached else file.read)
                if found is not None:
                    return segment, found[0]
            at += 1
        return None

    def remember_end(self, following: Offset, segment: Segment, position: int) -> None:
        """Remember that a read ended before offset `following`, so the next one needs no index.

        Deciding thread only.
        """
        ends = self.ends
        if position >= segment.size and segment is not self._list[-1]:
            return
        if len(ends) >= _ENDS_MAX:
            ends.clear()
        ends[following] = (segment, position)

    def forget_ends(self) -> None:
        """Clear the remembered read positions, as they are invalid now."""
        self.ends.clear()
