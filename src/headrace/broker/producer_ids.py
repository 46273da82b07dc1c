"""`ProducerIds`: producer ids from blocks that the metadata store reserves for this broker.

A block is reserved before its first id is used, so no id is assigned twice, even after a crash.
"""

from headrace.model.invariant import invariant

PRODUCER_ID_BLOCK_SIZE = 1000
PRODUCER_ID_MAX = (1 << 63) - 1


class ProducerIds:
    """The rest of the current block of ids; a restart skips it, as it begins without a block."""

    __slots__ = ("_end", "_next")

    def __init__(self) -> None:
        """Begin without a block, so that the first request reserves one."""
        self._next = 0
        self._end = 0

    @property
    def empty(self) -> bool:
        """Whether all ids of the block are handed out."""
        return self._next >= self._end

    def refill(self, first: int, last: int) -> None:
        """Continue with the block `first` to `last` (inclusive), which the store has reserved."""
        invariant(self._next >= self._end, "a producer id block was dropped before its end")
        invariant(first >= self._end, f"producer id block at {first} lies before {self._end}")
        self._next = first
        self._end = last + 1

    def take(self) -> int | None:
        """Return an id that was never assigned, or None if the block is used up."""
        if self._next >= self._end:
            return None
        taken = self._next
        self._next += 1
        return taken
