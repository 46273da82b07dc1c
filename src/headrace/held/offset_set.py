"""`OffsetSet`: a set of offsets at one bit each, in chunks that exist where an offset does."""

from collections.abc import Callable

_CHUNK_BITS = 16
_CHUNK_BYTES = 1 << (_CHUNK_BITS - 3)
_IN_CHUNK = (1 << _CHUNK_BITS) - 1


class OffsetSet:
    """A set of offsets, none negative: 8 KiB for each 65,536 offsets among which some are in it."""

    __slots__ = ("_chunks", "_counts")

    def __init__(self) -> None:
        self._chunks: dict[int, bytearray] = {}
        self._counts: dict[int, int] = {}
        """The offsets of each chunk, at least one."""

    def add(self, offset: int) -> None:
        """Add an offset; no effect if it is in the set."""
        number = offset >> _CHUNK_BITS
        chunk = self._chunks.get(number)
        if chunk is None:
            chunk = self._chunks[number] = bytearray(_CHUNK_BYTES)
            self._counts[number] = 0
        at, bit = (offset & _IN_CHUNK) >> 3, 1 << (offset & 7)
        if not chunk[at] & bit:
            chunk[at] |= bit
            self._counts[number] += 1

    def remove(self, offset: int) -> bool:
        """Remove an offset; return whether it was in the set."""
        if offset not in self:
            return False
        number = offset >> _CHUNK_BITS
        self._chunks[number][(offset & _IN_CHUNK) >> 3] &= ~(1 << (offset & 7))
        self._counts[number] -= 1
        if not self._counts[number]:
            del self._chunks[number], self._counts[number]
        return True

    def __contains__(self, offset: int) -> bool:
        chunk = self._chunks.get(offset >> _CHUNK_BITS)
        return chunk is not None and bool(chunk[(offset & _IN_CHUNK) >> 3] & 1 << (offset & 7))

    def __len__(self) -> int:
        return sum(self._counts.values())

    def each(self, visit: Callable[[int], object]) -> None:
        """Call `visit` with each offset, ascending; it must not change this set."""
        for number in sorted(self._chunks):
            for at, byte in enumerate(self._chunks[number]):
                for bit in range(8) if byte else ():
                    if byte & 1 << bit:
                        visit(number << _CHUNK_BITS | at << 3 | bit)
