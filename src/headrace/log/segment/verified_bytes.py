"""`Sound`: the byte ranges of a segment that were verified and have not left the page cache since.

They are sent without another CRC check (`served_ranges`): appended bytes were checked on arrival,
others by their first reader. Damage happens on the disk, so bytes that stayed in memory are intact.
Bytes found to have left the cache, and bytes near them that read-ahead may load again, count as
unverified.
"""

from typing import Final

_NOWHERE: Final = 1 << 63
READ_AHEAD_BYTES = 16 << 20
"""Read-ahead in bytes; more than operating systems do."""


class Sound:
    """The verified bytes of one segment: all appended ones, and one range that was read."""

    __slots__ = ("_appended_from", "_from", "_to")

    def __init__(self) -> None:
        """Start with no verified bytes."""
        self._from = self._to = 0
        self._appended_from = _NOWHERE

    def appended_from(self, position: int) -> None:
        """Treat all bytes from `position` on as appended by this process, hence verified."""
        self._appended_from = position

    def covers(self, start: int, end: int) -> bool:
        """Return whether all bytes of [start, end) are verified; they must be in the segment."""
        appended = self._appended_from
        if start >= appended:
            return True
        return self._from <= start < self._to and (end <= self._to or appended <= self._to)

    def add(self, start: int, end: int) -> None:
        """Mark the byte range [start, end) of whole batches as verified.

        One range is stored: of two that do not touch, the larger.
        """
        if self._from == self._to or (start <= self._to and end >= self._from):
            if self._from < self._to:
                start, end = min(start, self._from), max(end, self._to)
        elif end - start <= self._to - self._from:
            return
        self._from, self._to = start, end

    def lost(self, start: int, end: int) -> None:
        """Mark the bytes of [start, end) as unverified; `end` may be behind the segment's end.

        Of the range that was read, the larger part before or behind stays verified.
        """
        if self._appended_from < end and self._appended_from != _NOWHERE:
            if self._appended_from < start:
                self.add(self._appended_from, start)
            self._appended_from = end
        before, behind = min(self._to, start), max(self._from, end)
        if before - self._from >= self._to - behind:
            self._to = max(before, self._from)
        else:
            self._from = min(behind, self._to)

    def evicted(self, position: int, size: int) -> None:
        """Mark `size` bytes from `position` on as unverified, since they left the page cache.

        The bytes that read-ahead loads with them are included.
        """
        self.lost(position, position + size + READ_AHEAD_BYTES)
