"""Positions that are delivered and not settled, with the sizes of their bodies.

Positions ascend, and most are settled in the order of delivery. A block of 256 positions is an
array of sizes: a settlement changes one entry, and a block is freed with its last message. If every
second message is settled, this takes less than 16 bytes for each unsettled one.
"""

from array import array
from collections.abc import Iterator, Sequence

BLOCK_POSITIONS = 256
_RUN_POSITIONS_MIN = 8
"""Neighbouring positions from which on they are added together: for few it takes longer."""
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
        count, blocks = len(positions), self._blocks
        self.count += count
        self.bytes += sum(sizes)
        if count >= _RUN_POSITIONS_MIN and positions[-1] - positions[0] == count - 1:
            self._add_run(positions[0], array("i", sizes))
            return
        for position, size in zip(positions, sizes, strict=True):
            number, at = divmod(position, BLOCK_POSITIONS)
            block = blocks.get(number)
            if block is None:
                block = blocks[number] = _Block()
            block.sizes[at] = size
            block.count += 1

    def _add_run(self, first: int, sizes: "array[int]") -> None:
        """Add neighbouring positions from `first` on, block by block."""
        done = 0
        for number, at, below in _parts(first, len(sizes)):
            block = self._blocks.get(number)
            if block is None:
                block = self._blocks[number] = _Block()
            block.sizes[at:below] = sizes[done : done + below - at]
            block.count += below - at
            done += below - at

    def settle_all(self, positions: Sequence[int]) -> Sequence[int]:
        """Remove settled positions; return those that are unsettled deliveries."""
        count = len(positions)
        if count >= _RUN_POSITIONS_MIN:
            first = positions[0]
            is_run = [*positions] == [*range(first, first + count)]
            if is_run and self._settle_run(first, count):
                return positions
        return [position for position in positions if self.settle(position)]

    def _settle_run(self, first: int, count: int) -> bool:
        """Remove neighbouring positions; return False, with none removed, if one is missing."""
        parts = [*_parts(first, count)]
        for number, at, below in parts:
            block = self._blocks.get(number)
            if block is None or _NOTHING in block.sizes[at:below]:
                return False
        for number, at, below in parts:
            block = self._blocks[number]
            self.bytes -= sum(block.sizes[at:below])
            block.sizes[at:below] = _EMPTY[at:below]
            block.count -= below - at
            if not block.count:
                del self._blocks[number]
        self.count -= count
        return True

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


def _parts(first: int, count: int) -> Iterator[tuple[int, int, int]]:
    """Yield the blocks of neighbouring positions: number, first place in it and end."""
    end = first + count
    for number in range(first // BLOCK_POSITIONS, -(-end // BLOCK_POSITIONS)):
        begin = number * BLOCK_POSITIONS
        yield number, max(first - begin, 0), min(end - begin, BLOCK_POSITIONS)
