"""Runs of settled positions as two arrays, 16 bytes a run: there may be millions of them."""

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from heapq import merge
from typing import NamedTuple


class Runs(NamedTuple):
    """Runs of positions, both ends inclusive, ascending and disjoint."""

    firsts: "array[int]"
    lasts: "array[int]"

    def holds(self, position: int) -> bool:
        """Tell whether a position is in one of the runs."""
        at = bisect_right(self.firsts, position)
        return at > 0 and position <= self.lasts[at - 1]

    def covers(self, first: int, below: int) -> bool:
        """Tell whether all positions from `first` to below `below` are in one run."""
        at = bisect_right(self.firsts, first)
        return at > 0 and below <= self.lasts[at - 1] + 1

    def following(self, position: int) -> int:
        """Return the first position from `position` on that is in none of the runs."""
        at = bisect_right(self.firsts, position)
        return max(position, self.lasts[at - 1] + 1) if at > 0 else position

    def below(self, end: int) -> "Runs":
        """Return the parts of the runs below a position."""
        stop = bisect_left(self.firsts, end)
        if stop == 0 or (stop == len(self.firsts) and self.lasts[-1] < end):
            return self if stop else NO_RUNS
        found = Runs(self.firsts[:stop], self.lasts[:stop])
        found.lasts[-1] = min(found.lasts[-1], end - 1)
        return found

    def above(self, start: int) -> "Runs":
        """Return the parts of the runs at or above a position."""
        at = bisect_left(self.lasts, start)
        if at == 0 and (not self.firsts or self.firsts[0] >= start):
            return self
        found = Runs(self.firsts[at:], self.lasts[at:])
        if found.firsts:
            found.firsts[0] = max(found.firsts[0], start)
        return found


NO_RUNS = Runs(array("q"), array("q"))


def runs_of(pairs: Iterable[tuple[int, int]]) -> Runs:
    """Return the runs of (first, last) pairs, which may overlap, in any order."""
    return _union(sorted(pairs))


def union(parts: Iterable[Runs]) -> Runs:
    """Return the union of runs; fast if each part lies above those before it."""
    firsts, lasts = array("q"), array("q")
    others: list[tuple[int, int]] = []
    for part in parts:
        if not part.firsts:
            continue
        if not lasts or part.firsts[0] > lasts[-1] + 1:
            firsts += part.firsts
            lasts += part.lasts
        elif part.firsts[0] == lasts[-1] + 1:
            firsts += part.firsts[1:]
            lasts[-1] = part.lasts[0]
            lasts += part.lasts[1:]
        else:
            others += zip(part.firsts, part.lasts, strict=True)
    if not others:
        return Runs(firsts, lasts)
    return _union(merge(zip(firsts, lasts, strict=True), sorted(others)))


def _union(pairs: Iterable[tuple[int, int]]) -> Runs:
    """Return the runs of (first, last) pairs, ascending by the first."""
    firsts, lasts = array("q"), array("q")
    end = None
    for first, last in pairs:
        if end is None or first > end + 1:
            firsts.append(first)
            lasts.append(last)
            end = last
        elif last > end:
            lasts[-1] = end = last
    return Runs(firsts, lasts)


def pack_runs(runs: Runs) -> bytes:
    """Encode runs of positions as pairs of i64, first and last, big-endian."""
    both = array("q", bytes(16 * len(runs.firsts)))
    both[0::2] = runs.firsts
    both[1::2] = runs.lasts
    if sys.byteorder == "little":
        both.byteswap()
    return both.tobytes()


def unpack_runs(data: bytes) -> Runs:
    """Decode runs of positions from the bytes of `pack_runs`."""
    both = array("q")
    both.frombytes(data)
    if sys.byteorder == "little":
        both.byteswap()
    return Runs(both[0::2], both[1::2])
