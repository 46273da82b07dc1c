"""Offsets to values without a hole: the latest offset by offset in a list, the others as runs.

Most of what is handed out is settled soon and almost in order. In a list that is a step in C,
whoever else holds the neighbours; a map of runs would be split and joined again twice for each
record. What stays behind is folded into runs, so the list is short again.
"""

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Generic, TypeVar

from headrace.delivery.offset_runs import Run, RunMap

V = TypeVar("V")

LISTED_MAX = 65_536
"""A run of more offsets is never listed one by one."""


class RecentRuns(Generic[V]):
    """Values of all offsets from `start` up to `end`.

    Values are told apart by identity in the list, by equality elsewhere. Who changes `listed` and
    `start` himself, for speed, sees to it that no tracked value is listed or passed over.
    """

    __slots__ = ("_is_tracked", "_runs", "base", "listed", "start")

    def __init__(
        self,
        start: int,
        is_tracked: Callable[[V], bool],
        added: Callable[[Run[V]], None],
        removed: Callable[[Run[V]], None],
    ) -> None:
        """`added` and `removed` are told of each run of a value that `is_tracked`."""
        self._is_tracked = is_tracked
        self._runs: RunMap[V] = RunMap(
            lambda run: added(run) if is_tracked(run.value) else None,
            lambda run: removed(run) if is_tracked(run.value) else None,
        )
        self.start = start
        """What the list has below it is forgotten."""
        self.base = start
        """Offsets below it are in the map alone; the list begins with it."""
        self.listed: list[V | None] = []
        """By offset; None: the map has it, for its value is tracked."""

    @property
    def end(self) -> int:
        """The first offset without a value."""
        return self.base + len(self.listed)

    def __len__(self) -> int:
        """Return how many runs are in the map."""
        return len(self._runs)

    def __iter__(self) -> Iterator[Run[V]]:
        """Yield all runs, the lowest first; not while they are changed."""
        return iter(self.between(self.start, self.end - 1))

    def at(self, offset: int) -> Run[V] | None:
        """Return the run that holds `offset`; of a listed one, `offset` alone."""
        index = offset - self.base
        if 0 <= index < len(self.listed):
            value = self.listed[index]
            if value is not None:
                return Run(offset, offset, value)
        return self._runs.at(offset)

    def between(self, first: int, last: int) -> list[Run[V]]:
        """Return the runs within `first` and `last`, the lowest first, from `start` on.

        Equal neighbours are one, wherever they are kept.
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
        """Let `first` to `last` have `value`; `first` neither below `start` nor above `end`."""
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
        """Forget what is below `start`, which may be above `end`."""
        if self._runs:
            self._runs.clear_below(start)
        self.start = start
        if start > self.base:
            del self.listed[: start - self.base]
            self.base = start

    def fold(self, upto: int) -> None:
        """Have what is below `upto` in the map alone: the list begins with `upto`."""
        if upto <= self.base:
            return
        at = max(self.start, self.base)
        for first, last, value in self._listed_runs(at, min(upto, self.end) - 1):
            if value is not None:
                self._runs.assign(first, last, value)
        del self.listed[: upto - self.base]
        self.base = upto

    def _listed_runs(self, first: int, last: int) -> Iterator[tuple[int, int, V | None]]:
        """Yield neighbours in the list that are one and the same."""
        values = self.listed[first - self.base : last + 1 - self.base]
        for _, same in groupby(values, id):
            group = list(same)
            yield first, first + len(group) - 1, group[0]
            first += len(group)
