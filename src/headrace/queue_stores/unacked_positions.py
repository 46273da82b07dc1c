"""Positions that are delivered and not settled, with the sizes of their bodies.

Positions ascend, and most are settled in the order of delivery. A block of 256 positions is an
array of sizes: a settlement changes one entry, and a block is freed with its last message. If every
second message is settled, this takes less than 16 bytes for each unsettled one.
"""

from array import array
from collections.abc import Iterator, Sequence

BLOCK_POSITIONS = 256
_NOTHING = -1
_EMPTY = array("i", [_NOTHING]) * BLOCK_POSITIONS


class _Block:
    """Body sizes of unsettled deliveries in a block of neighbouring positions, and their count."""

    __slots__ = ("count", "sizes")

    def __init__(self) -> None:
        self.sizes = _EMPTY[:]
        self.count = 0


class HandedOut:
    """Unsettled deliveries of a queue, by position, each with the bytes of its body."""

    __slots__ = ("_blocks", "bytes", "count")

    def __init__(self) -> None:
        self._blocks: dict[int, _Block] = {}
        """Blocks by number, in the order of positions: none is added below the last."""
        self.count = 0
        self.bytes = 0

    def copy(self) -> "HandedOut":
        """Return a copy of the unsettled deliveries, for another thread to read."""
        found = HandedOut()
        found.count, found.bytes = self.count, self.bytes
        for number, block in self._blocks.items():
            copied = found._blocks[number] = _Block.__new__(_Block)
            copied.sizes, copied.count = block.sizes[:], block.count
        return found

    def add(self, positions: Sequence[int], sizes: Sequence[int]) -> None:
        """Add delivered positions, each above all before it, with the sizes of their bodies."""
        blocks = self._blocks
        for position, size in zip(positions, sizes, strict=True):
            number, at = divmod(position, BLOCK_POSITIONS)
            block = blocks.get(number)
            if block is None:
                block = blocks[number] = _Block()
            block.sizes[at] = size
            block.count += 1
        self.count += len(positions)
        self.bytes += sum(sizes)

    def settle(self, position: int) -> bool:
        """Remove a settled position; return False if it is not an unsettled delivery."""
        number, at = divmod(position, BLOCK_POSITIONS)
        block = self._blocks.get(number)
        if block is None:
            return False
        size = block.sizes[at]
        if size == _NOTHING:
            return False
        block.sizes[at] = _NOTHING
        self.count -= 1
        self.bytes -= size
        if block.count == 1:
            del self._blocks[number]
        else:
            block.count -= 1
        return True

    def lowest(self) -> int | None:
        """Return the lowest position of an unsettled delivery, or None."""
        return next(self.positions(), None)

    def positions(self) -> Iterator[int]:
        """Yield the positions of unsettled deliveries in ascending order."""
        for number, block in self._blocks.items():
            first = number * BLOCK_POSITIONS
            for at, size in enumerate(block.sizes):
                if size != _NOTHING:
                    yield first + at

    def has_any(self, first: int, below: int) -> bool:
        """Tell whether a position from `first` to below `below` is present."""
        blocks = self._blocks
        numbers = range(first // BLOCK_POSITIONS, -(-below // BLOCK_POSITIONS))
        for number in blocks if len(blocks) < len(numbers) else numbers:
            block = blocks.get(number)
            if block is None:
                continue
            start = number * BLOCK_POSITIONS
            if first <= start and start + BLOCK_POSITIONS <= below:
                return True
            sizes = block.sizes[max(first - start, 0) : max(below - start, 0)]
            if any(size != _NOTHING for size in sizes):
                return True
        return False

    def gaps(self, first: int, below: int) -> Iterator[tuple[int, int]]:
        """Yield the runs, ends inclusive, of absent positions from `first` to below `below`."""
        for position in self.positions():
            if position >= below:
                break
            if position > first:
                yield first, position - 1
            first = max(first, position + 1)
        if first < below:
            yield first, below - 1
