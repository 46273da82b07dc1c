"""Which bytes of a segment were looked at by this process and have not left the page cache since.

They are sent without another look (`ranges`): appended ones were checked when they came, others
when the first reader had them. Rot is the platter's; what was seen in memory and stayed there has
not met it. Bytes that are found to have left the cache, and those around them, which may be read in
with them unseen, count as not looked at any more.
"""

from typing import Final

_NOWHERE: Final = 1 << 63


class Sound:
    """What is known of one segment: what was appended, and one stretch that was read."""

    __slots__ = ("_appended_from", "_from", "_to")

    def __init__(self) -> None:
        """Nothing is known."""
        self._from = self._to = 0
        self._appended_from = _NOWHERE

    def appended_from(self, position: int) -> None:
        """All there will be from `position` on is appended by this process."""
        self._appended_from = position

    def covers(self, start: int, end: int) -> bool:
        """Whether all bytes of [start, end) are known; all of them are in the segment."""
        appended = self._appended_from
        if start >= appended:
            return True
        return self._from <= start < self._to and (end <= self._to or appended <= self._to)

    def add(self, start: int, end: int) -> None:
        """Whole batches in [start, end) were looked at just now.

        The larger one of stretches that do not touch is kept.
        """
        if self._from == self._to or (start <= self._to and end >= self._from):
            if self._from < self._to:
                start, end = min(start, self._from), max(end, self._to)
        elif end - start <= self._to - self._from:
            return
        self._from, self._to = start, end

    def lost(self, position: int, size: int) -> None:
        """From `position` to the segment's `size` bytes are to be looked at again."""
        if self._appended_from < position:
            self.add(self._appended_from, position)
        if self._appended_from < size:
            self._appended_from = size
        self._to = min(self._to, position)
        self._from = min(self._from, self._to)
