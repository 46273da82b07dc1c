"""Producer ids, handed out from blocks that the metadata store reserves for this broker.

A block is reserved before its first id goes out, so no id is ever given twice, whoever dies when.
"""

from headrace.model.invariant import invariant

PRODUCER_ID_BLOCK_SIZE = 1000
PRODUCER_ID_MAX = (1 << 63) - 1


class ProducerIds:
    """The rest of the block at hand; empty at the start, so a restart skips what was left."""

    __slots__ = ("_end", "_next")

    def __init__(self) -> None:
        """Start with no block."""
        self._next = 0
        self._end = 0

    @property
    def empty(self) -> bool:
        """Whether the block is used up."""
        return self._next >= self._end

    def refill(self, first: int, last: int) -> None:
        """Go on with the block `first` … `last` (inclusive), reserved in the store for us."""
        invariant(self._next >= self._end, "a producer id block was dropped before its end")
        invariant(first >= self._end, f"producer id block at {first} lies before {self._end}")
        self._next = first
        self._end = last + 1

    def take(self) -> int | None:
        """Take an id never given before; None where the block is used up."""
        if self._next >= self._end:
            return None
        taken = self._next
        self._next += 1
        return taken
