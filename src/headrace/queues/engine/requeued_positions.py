"""Requeued positions of a queue, lowest first, 8 bytes each where many are added together."""

from array import array
from collections.abc import Sequence
from heapq import heapify, heappop, heappush, heapreplace

FEW = 1000
"""Positions added together from which on they form an array of their own, not heap entries."""


class ReturnedPositions:
    """A priority queue of positions: a heap, and a heap of sorted arrays."""

    __slots__ = ("_arrays", "_count", "_heap")

    def __init__(self) -> None:
        self._heap: list[int] = []
        self._arrays: list[tuple[int, int, array[int]]] = []
        """A heap of (next position, its index, sorted array).

        No position is in two arrays, so arrays are never compared.
        """
        self._count = 0

    def __len__(self) -> int:
        """Return the number of requeued positions."""
        return self._count

    def add(self, positions: Sequence[int]) -> None:
        """Add requeued positions, none of which is present."""
        self._count += len(positions)
        heap = self._heap
        if len(positions) > FEW:
            ordered = array("q", sorted(positions))
            heappush(self._arrays, (ordered[0], 0, ordered))
        elif len(positions) > len(heap):
            heap += positions
            heapify(heap)
        else:
            for position in positions:
                heappush(heap, position)

    @property
    def lowest(self) -> int:
        """The lowest requeued position, delivered next; raises IndexError if empty."""
        heap, arrays = self._heap, self._arrays
        if arrays and (not heap or arrays[0][0] < heap[0]):
            return arrays[0][0]
        return heap[0]

    def pop(self) -> int:
        """Remove and return the lowest position; raise IndexError if empty."""
        arrays = self._arrays
        self._count -= 1
        if not arrays or (self._heap and self._heap[0] < arrays[0][0]):
            return heappop(self._heap)
        position, at, ordered = arrays[0]
        if at + 1 < len(ordered):
            heapreplace(arrays, (ordered[at + 1], at + 1, ordered))
        else:
            heappop(arrays)
        return position

    def take_all(self) -> Sequence[int]:
        """Remove and return all requeued positions, ascending."""
        found = array("q", sorted([*self._heap, *(p for _, at, a in self._arrays for p in a[at:])]))
        self._heap, self._arrays, self._count = [], [], 0
        return found
