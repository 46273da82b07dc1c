"""`TimeIndex`: offsets by the time at which they are due, some 9 bytes for each.

    _minutes    minute -> entries of 8 bytes: ms within the minute, 16 bits | offset, 40 bits
    _moments    ms -> offsets, of minutes that have begun

An entry is no Python object. A minute's entries are sorted into moments once it begins, and the
sort is stable: offsets of one millisecond are due in the order of the log, that of arrival. A
minute has at most 60,000 moments, however many offsets are due in it.
"""

from array import array
from bisect import insort
from collections.abc import Callable
from typing import Final, NamedTuple

from sortedcontainers import SortedDict

MINUTE_MS = 60_000
_OFFSET_BITS = 40
_OFFSET = (1 << _OFFSET_BITS) - 1
_CODE: Final = "Q"


class DueOffset(NamedTuple):
    """An offset and the time in ms since 1970 at which it is due."""

    due_ms: int
    offset: int


class TimeIndex:
    """Offsets in the order of their times, and of offsets within a millisecond."""

    __slots__ = ("_begun_below", "_count", "_minutes", "_moments")

    def __init__(self) -> None:
        self._minutes = SortedDict()
        self._moments = SortedDict()
        self._begun_below = 0
        """The minute below which entries are in `_moments`."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, due_ms: int, offset: int) -> None:
        """Add an offset, which may be due already. ValueError: it has more than 40 bits."""
        if not 0 <= offset <= _OFFSET or due_ms < 0:
            raise ValueError(f"offset {offset}, due at {due_ms}")
        minute, rest_ms = divmod(due_ms, MINUTE_MS)
        if minute < self._begun_below:
            self._add_moment(due_ms, offset)
        else:
            entries = self._minutes.get(minute)
            if entries is None:
                entries = self._minutes[minute] = array(_CODE)
            entries.append(rest_ms << _OFFSET_BITS | offset)
        self._count += 1

    def first_ms(self) -> int | None:
        """Return when to look next: no offset is due before that. None: the index is empty."""
        times: list[int] = [self._moments.peekitem(0)[0]] if self._moments else []
        if self._minutes:
            times.append(self._minutes.peekitem(0)[0] * MINUTE_MS)
        return min(times, default=None)

    def take(self, now_ms: int, count_max: int) -> list[DueOffset]:
        """Remove and return the offsets that are due, at most `count_max`, in order."""
        while self._minutes and self._minutes.peekitem(0)[0] * MINUTE_MS <= now_ms:
            self._begin_minute()
        taken: list[DueOffset] = []
        while self._moments and len(taken) < count_max:
            due_ms, offsets = self._moments.peekitem(0)
            if due_ms > now_ms:
                break
            room = count_max - len(taken)
            taken += [DueOffset(due_ms, offset) for offset in offsets[:room]]
            if len(offsets) <= room:
                del self._moments[due_ms]
            else:
                del offsets[:room]
        self._count -= len(taken)
        return taken

    def at(self, due_ms: int) -> list[int]:
        """Return the offsets that are due at a time, in order."""
        minute, rest_ms = divmod(due_ms, MINUTE_MS)
        if minute < self._begun_below:
            return list(self._moments.get(due_ms, ()))
        entries = self._minutes.get(minute, ())
        return [entry & _OFFSET for entry in entries if entry >> _OFFSET_BITS == rest_ms]

    def remove(self, due_ms: int, offset: int) -> bool:
        """Remove an offset that is due at a time; return whether it was there."""
        minute, rest_ms = divmod(due_ms, MINUTE_MS)
        begun = minute < self._begun_below
        places = self._moments if begun else self._minutes
        place = due_ms if begun else minute
        values = places.get(place)
        value = offset if begun else rest_ms << _OFFSET_BITS | offset
        if values is None or value not in values:
            return False
        values.remove(value)
        if not values:
            del places[place]
        self._count -= 1
        return True

    def keep(self, wanted: Callable[[int], bool]) -> None:
        """Remove the offsets that are not wanted."""
        self._count = 0
        for places in (self._minutes, self._moments):
            for place in list(places):
                kept = array(_CODE, (each for each in places[place] if wanted(each & _OFFSET)))
                if kept:
                    places[place] = kept
                    self._count += len(kept)
                else:
                    del places[place]

    def _begin_minute(self) -> None:
        """Sort the entries of the first minute into moments."""
        minute, entries = self._minutes.popitem(0)
        self._begun_below = max(self._begun_below, minute + 1)
        for entry in entries:
            self._add_moment(minute * MINUTE_MS + (entry >> _OFFSET_BITS), entry & _OFFSET)

    def _add_moment(self, due_ms: int, offset: int) -> None:
        offsets = self._moments.get(due_ms)
        if offsets is None:
            self._moments[due_ms] = array(_CODE, (offset,))
        elif offsets[-1] < offset:
            offsets.append(offset)
        else:  # one that comes back
            insort(offsets, offset)
