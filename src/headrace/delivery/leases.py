"""`Leases`: which holder has acquired which records, until when; one entry for each acquisition."""

from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush

_PRUNED_FROM = 64
"""Deadlines from which on those of ended leases are removed."""


class Lease:
    """Records acquired together; `left` of those from `first` to `last` are still acquired."""

    __slots__ = ("deadline", "first", "holder", "last", "left")

    def __init__(
        self, holder: Hashable, first: int, last: int, left: int, deadline: float | None
    ) -> None:
        self.holder = holder
        self.first = first
        self.last = last
        self.left = left
        self.deadline = deadline
        """Monotonic time in seconds at which it ends; None: when the holder leaves."""


class Leases:
    """The leases of a cursor, by holder and by deadline."""

    __slots__ = ("_heap", "_prune_at", "_sequence", "by_holder")

    def __init__(self) -> None:
        self.by_holder: dict[Hashable, dict[Lease, None]] = {}
        self._heap: list[tuple[float, int, Lease]] = []
        self._sequence = 0
        self._prune_at = _PRUNED_FROM

    def open(self, lease: Lease) -> Lease:
        """Add a lease and return it."""
        held = self.by_holder.get(lease.holder)
        if held is None:
            self.by_holder[lease.holder] = {lease: None}
        else:
            held[lease] = None
        if lease.deadline is not None:
            self._sequence += 1
            heappush(self._heap, (lease.deadline, self._sequence, lease))
            if len(self._heap) >= self._prune_at:
                self._prune()
        return lease

    def less(self, lease: Lease, count: int) -> None:
        """Subtract `count` records from a lease; remove it if none is left."""
        lease.left -= count
        if lease.left == 0:
            held = self.by_holder[lease.holder]
            del held[lease]
            if not held:
                del self.by_holder[lease.holder]

    def of(self, holder: Hashable) -> tuple[Lease, ...]:
        """Return the leases of a holder, oldest first."""
        return tuple(self.by_holder.get(holder, ()))

    def overdue(self, now: float) -> Iterator[Lease]:
        """Remove and yield each lease whose deadline is at or before `now` (monotonic seconds)."""
        while self._heap and self._heap[0][0] <= now:
            lease = heappop(self._heap)[2]
            if lease.left:
                yield lease

    def _prune(self) -> None:
        """Remove the deadlines of ended leases; most end long before their deadline."""
        self._heap = [entry for entry in self._heap if entry[2].left]
        heapify(self._heap)
        self._prune_at = max(2 * len(self._heap), _PRUNED_FROM)

    def next_deadline(self) -> float | None:
        """Return the earliest deadline of an open lease in monotonic seconds, or None."""
        while self._heap and not self._heap[0][2].left:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None
