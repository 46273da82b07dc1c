"""`Known`: the facts about a log that its directory provides before the log is opened."""

from typing import NamedTuple

from headrace.model.nouns import Offset

_START = Offset(0)


class Known(NamedTuple):
    """The checkpoint offsets of one log, and facts about the last stop."""

    clean: bool
    """Whether the last stop was clean."""
    recovery_point: Offset = _START
    """The recovery point: every record below was flushed."""
    start_offset: Offset = _START
    high_watermark: Offset = _START
    now_ms: int = 0
    producer_expiration_ms: int = 86_400_000
    same_boot: bool = False
    """Whether the machine has not rebooted since the last use: the page cache survived.

    Only the write in progress at a kill can be torn.
    """
    recovery_point_lost: bool = False
    """Whether the recovery point existed and is unreadable."""
    start_lost: bool = False
    """Whether the log start offset existed and is unreadable."""
    gaps_below: Offset = _START
    """Offset below which compaction may have left gaps between segments."""
    gaps_known: bool = True
    """Whether `gaps_below` is certain; if not, compacted logs may have gaps anywhere (`gaps`)."""
    published: Offset = _START
    """Published end offset from `durable-read-bounds`, updated with each flush."""
    seen: tuple[tuple[int, int], ...] = ()
    """(base offset, size) of the segments in the list of unchanged logs."""
    seen_exact: bool = False
    """Whether the log has certainly not changed since `seen` was written."""
    seen_gaps: Offset | None = None
    """`gaps_below` at the time when `seen` was written; None if unknown."""
    doubted: bool = False
    """Whether a flush failed: the page cache may hold data that is not on the disk."""

    @property
    def flushed(self) -> Offset:
        """Offset below which every record was flushed."""
        return max(self.recovery_point, self.published)

    @property
    def own_files(self) -> bool:
        """Whether the log's small files are as this broker last wrote them."""
        return self.same_boot or self.seen_exact
