"""`RecentRuns`: a map of offsets to values without gaps; the latest offsets are in a list.

Most delivered records are settled soon and almost in order. In a list that is a step in C, whatever
the neighbours' values; a map of runs would split and join runs twice for each record. Older offsets
are folded into runs, so that the list stays short.
"""

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Generic, TypeVar

from headrace.delivery.offset_runs import Run, RunMap

V = TypeVar("V")

LISTED_MAX = 65_536
"""Length in offsets from which on a run is never put into the list."""


class RecentRuns(Generic[V]):
    """Values of all offsets from `start` to `end`: a list of the latest, and runs of the others.

    Values in the list are compared by identity, those of runs by equality. Code that changes
    `listed` and `start` itself, for speed, must not list or pass over a tracked value.
    """

    __slots__ = ("_is_tracked", "_runs", "base", "listed", "start")

    def __init__(
        self,
        start: int,
        is_tracked: Callable[[V], bool],
        added: Callable[[Run[V]], None],
        removed: Callable[[Run[V]], None],
    ) -> None:
        """Create an empty map. `added` and `removed` get each run whose value `is_tracked`."""
        self._is_tracked = is_tracked
        self._runs: RunMap[V] = RunMap(
            lambda run: added(run) if is_tracked(run.value) else None,
            lambda run: removed(run) if is_tracked(run.value) else None,
        )
        self.start = start
        """Lowest offset of the map; list entries below it are ignored."""
        self.base = start
        """Offset of the first list entry; lower offsets are runs."""
        self.listed: list[V | None] = []
        """Values by offset from `base` on; None: the value is tracked, and is in the runs."""

    @property
    def end(self) -> int:
        """The first offset without a value."""
        return self.base + len(self.listed)

    def __len__(self) -> int:
        """Return the number of runs, without the list."""
        return len(self._runs)

    def __iter__(self) -> Iterator[Run[V]]:
        """Yield all runs in ascending order; the map must not change meanwhile."""
        return iter(self.between(self.start, self.end - 1))

    def at(self, offset: int) -> Run[V] | None:
        """Return the run that holds `offset`; of a listed offset, a run of that offset alone."""
        index = offset - self.base
        if 0 <= index < len(self.listed):
            value = self.listed[index]
            if value is not None:
                return Run(offset, offset, value)
        return self._runs.at(offset)

    def between(self, first: int, last: int) -> list[Run[V]]:
        """Return the runs within `first` and `last`, from `start` on, in ascending order.

        Equal neighbours are merged, whether listed or not.
        """
        first = max(first, self.start)
        if last < first:
            return []
        if not self.listed or last < self.base:
            return self._runs.between(first, last)
        found = self._runs.between(first, self.base - 1) if first < self.base else []
        for begin, end, value in self._listed_runs(max(first, self.base), min(last, self.end - 1)):
            runs = [Run(begin, end, value)] if value is not None else None
            for run in self._runs.between(begin, end) if runs is None else runs:
                before = found[-1] if found else None
                if (
                    before is not None
                    and before.last + 1 == run.first
                    and before.value == run.value
                ):
                    found[-1] = Run(before.first, run.last, run.value)
                else:
                    found.append(run)
        return found

    def assign(self, first: int, last: int, value: V) -> None:
        """Set the value of offsets `first` to `last`; `first` must be within `start` and `end`."""
        if last >= self.base and last - first >= LISTED_MAX:
            self.fold(last + 1)
        if first < self.base:
            self._runs.assign(first, min(last, self.base - 1), value)
            first = self.base
        if last < first:
            return
        begin, end = first - self.base, last + 1 - self.base
        if self._is_tracked(value):
            self.listed[begin:end] = [None] * (end - begin)
            self._runs.assign(first, last, value)
        else:
            if None in self.listed[begin:end]:
                self._runs.clear(first, last)
            self.listed[begin:end] = [value] * (end - begin)

    def clear_below(self, start: int) -> None:
        """Remove the offsets below `start`, which may be above `end`."""
        if self._runs:
            self._runs.clear_below(start)
        self.start = start
        if start > self.base:
            del self.listed[: start - self.base]
            self.base = start

    def fold(self, upto: int) -> None:
        """Move the list entries below `upto` into runs."""
        if upto <= self.base:
            return
        at = max(self.start, self.base)
        for first, last, value in self._listed_runs(at, min(upto, self.end) - 1):
            if value is not None:
                self._runs.assign(first, last, value)
        del self.listed[: upto - self.base]
        self.base = upto

    def _listed_runs(self, first: int, last: int) -> Iterator[tuple[int, int, V | None]]:
        """Yield (first offset, last offset, value) of each run of one object in the list."""
        values = self.listed[first - self.base : last + 1 - self.base]
        for _, same in groupby(values, id):
            group = list(same)
            yield first, first + len(group) - 1, group[0]
            first += len(group)
