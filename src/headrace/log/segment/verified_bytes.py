"""Which bytes of a segment were looked at by this process and have not left the page cache since.

They are sent without another look (`ranges`): appended ones were checked when they came, others
when the first reader had them. Rot is the disk's; what was seen in memory and stayed there has
not met it. Bytes that are found to have left the cache, and those around them, which may be read in
with them unseen, count as not looked at any more.
"""

from typing import Final

_NOWHERE: Final = 1 << 63
READ_AHEAD_BYTES = 16 << 20
"""More than a system reads on unasked."""


class Sound:
    """What is known of one segment: what was appended, and one stretch that was read."""

    __slots__ = ("_appended_from", "_from", "_to")

    def __init__(self) -> None:
        """Nothing is known."""
        self._from = self._to = 0
        self._appended_from = _NOWHERE

    def appended_from(self, position: int) -> None:
        """Take all there will be from `position` on for appended by this process."""
        self._appended_from = position

    def covers(self, start: int, end: int) -> bool:
        """Tell whether all bytes of [start, end) are known; all of them are in the segment."""
        appended = self._appended_from
        if start >= appended:
            return True
        return self._from <= start < self._to and (end <= self._to or appended <= self._to)

    def add(self, start: int, end: int) -> None:
        """Add whole batches in [start, end) that were looked at just now.

        The larger one of stretches that do not touch is kept.
        """
        if self._from == self._to or (start <= self._to and end >= self._from):
            if self._from < self._to:
                start, end = min(start, self._from), max(end, self._to)
        elif end - start <= self._to - self._from:
            return
        self._from, self._to = start, end

    def lost(self, start: int, end: int) -> None:
        """Have the bytes of [start, end) looked at again; `end` may be beyond the segment's.

        Of what was read the larger part before or behind them stays known.
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
        """Note that `size` bytes from `position` on have left the cache, and are read in again.

        With them what lies behind them, as far as systems read ahead.
        """
        self.lost(position, position + size + READ_AHEAD_BYTES)
