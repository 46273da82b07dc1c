"""`Appended`: the result of an append to a partition."""

from typing import NamedTuple

from headrace.model.nouns import Offset


class Appended(NamedTuple):
    """The offsets of an appended batch, and the offset at which it counts as committed."""

    base_offset: Offset
    last_offset: Offset
    append_time_ms: int
    """The broker's time in milliseconds if the topic uses LogAppendTime, else -1."""
    commit_offset: Offset
    """Answer acks=all once the high watermark has reached this offset."""
    duplicate: bool
    """Whether the batch had been appended before; the offsets are then those of the first
    append."""
