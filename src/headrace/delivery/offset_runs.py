"""`RunMap`: a map of offsets to values, stored as runs of neighbouring offsets of equal value.

The runs are in a `sortedcontainers.SortedDict`, so a step costs O(log n) in the number of runs,
however many offsets they cover.
"""

from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeVar

from sortedcontainers import SortedDict

V = TypeVar("V")


class Run(NamedTuple, Generic[V]):
    """Offsets `first` to `last`, inclusive, of one value."""

    first: int
    last: int
    value: V


class RunMap(Generic[V]):
    """A map of offsets to values as disjoint runs; equal neighbours are merged."""

    __slots__ = ("_added", "_removed", "_runs")

    def __init__(
        self,
        added: Callable[[Run[V]], None] | None = None,
        removed: Callable[[Run[V]], None] | None = None,
    ) -> None:
        """Create an empty map. `added` and `removed` get each run that appears or vanishes."""
        self._runs = SortedDict()
        self._added = added
        self._removed = removed

    def __len__(self) -> int:
        """Return the number of runs."""
        return len(self._runs)

    def __iter__(self) -> Iterator[Run[V]]:
        """Yield all runs in ascending order; the map must not change meanwhile."""
        values: Iterator[Run[V]] = iter(self._runs.values())
        return values

    def first(self) -> Run[V] | None:
        """Return the lowest run, or None if the map is empty."""
        for key in self._runs.irange():
            return self._get(key)
        return None

    def at(self, offset: int) -> Run[V] | None:
        """Return the run that holds `offset`, or None."""
        for key in self._runs.irange(None, offset, reverse=True):
            run = self._get(key)
            return run if run.last >= offset else None
        return None

    def between(self, first: int, last: int) -> list[Run[V]]:
        """Return the runs within `first` and `last`, cut to that range, in ascending order."""
        found: list[Run[V]] = []
        before = self.at(first)
        if before is not None and before.first < first:
            found.append(Run(first, min(before.last, last), before.value))
        for key in self._runs.irange(first, last):
            run = self._get(key)
            found.append(run if run.last <= last else Run(run.first, last, run.value))
        return found

    def assign(self, first: int, last: int, value: V) -> None:
        """Set the value of offsets `first` to `last`."""
        self.clear(first, last)
        before = self.at(first - 1)
        if before is not None and before.value == value:
            self._remove(before)
            first = before.first
        after = self.at(last + 1)
        if after is not None and after.value == value:
            self._remove(after)
            last = after.last
        self._add(Run(first, last, value))

    def clear(self, first: int, last: int) -> None:
        """Remove the values of offsets `first` to `last`."""
        before = self.at(first)
        if before is not None and before.first < first:
            self._remove(before)
            self._add(Run(before.first, first - 1, before.value))
            if before.last > last:
                self._add(Run(last + 1, before.last, before.value))
                return
        for key in tuple(self._runs.irange(first, last)):
            run = self._get(key)
            self._remove(run)
            if run.last > last:
                self._add(Run(last + 1, run.last, run.value))

    def clear_below(self, offset: int) -> None:
        """Remove the values of all offsets below `offset`."""
        lowest = self.first()
        if lowest is not None and lowest.first < offset:
            self.clear(lowest.first, offset - 1)

    def _get(self, key: int) -> Run[V]:
        run: Run[V] = self._runs[key]
        return run

    def _add(self, run: Run[V]) -> None:
        self._runs[run.first] = run
        if self._added is not None:
            self._added(run)

    def _remove(self, run: Run[V]) -> None:
        del self._runs[run.first]
        if self._removed is not None:
            self._removed(run)
