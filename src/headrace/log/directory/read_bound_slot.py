"""A log's place in `durable-read-bounds`."""

Said = tuple[int, int, int]
"""Start, end, last stable offset."""


class Slot:
    """A log's place in the file."""

    __slots__ = ("at", "key", "said")

    def __init__(self, at: int, key: bytes) -> None:
        self.at = at
        """Its first byte."""
        self.key = key
        """Topic id and partition, packed."""
        self.said: Said | None = None
        """What it says now; None: nothing that binds."""
