"""`Slot`: the position and content of one log's entry in `durable-read-bounds`."""

Said = tuple[int, int, int]
"""Published (start, end, last stable offset) of a log."""


class Slot:
    """The entry of one log in `durable-read-bounds`."""

    __slots__ = ("at", "key", "said")

    def __init__(self, at: int, key: bytes) -> None:
        self.at = at
        """Byte position of the slot in the file."""
        self.key = key
        """Topic id and partition as packed bytes."""
        self.said: Said | None = None
        """The published offsets; None if nothing valid is published."""
