"""What an append answers."""

from typing import NamedTuple

from headrace.model.nouns import Offset


class Appended(NamedTuple):
    """Where a batch lies, and when that is settled."""

    base_offset: Offset
    last_offset: Offset
    append_time_ms: int
    """The broker's time where the topic stamps it (LogAppendTime), else -1."""
    commit_offset: Offset
    """acks=all is true once the high watermark has reached this."""
    duplicate: bool
    """The batch had been appended before: the offsets are the first time's."""
