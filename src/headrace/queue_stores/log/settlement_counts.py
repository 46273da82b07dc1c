"""Counts and positions that a settlement reports."""

from typing import NamedTuple


class Counts(NamedTuple):
    """Counts of messages from the mark on that are committed and not settled."""

    counted_to: int = 0
    messages: int = 0
    body_bytes: int = 0


class Settled(NamedTuple):
    """Two positions in a log: all messages below each are settled."""

    below: int = 0
    """Position below which all messages are settled, perhaps only in memory."""
    durably: int = 0
    """Position, at most `below`, below which the settlement has also been written to disk."""
