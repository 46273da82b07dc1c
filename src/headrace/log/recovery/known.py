"""What a directory knows of a log before it is opened."""

from typing import NamedTuple

from headrace.model.nouns import Offset

_START = Offset(0)


class Known(NamedTuple):
    """What the directory's checkpoints say of one log."""

    clean: bool
    """Whether the last stop was a clean one."""
    recovery_point: Offset = _START
    """Everything below was flushed, for sure."""
    start_offset: Offset = _START
    high_watermark: Offset = _START
    now_ms: int = 0
    producer_expiration_ms: int = 86_400_000
    same_boot: bool = False
    """The machine has run on since the start before: the page cache holds all that was written, and
    only the write that was under way when the process died can be torn."""
    recovery_point_lost: bool = False
    """There was a recovery point, and it cannot be read."""
    start_lost: bool = False
    """There was a log start, and it cannot be read."""
    gaps_below: Offset = _START
    """Below it compaction may have left gaps between segments."""
    gaps_known: bool = True
    """Whether that is sure; if not, compacted logs may have gaps anywhere: see `gaps`."""
    published: Offset = _START
    """What readers were told is flushed: written after each flush, so later than the rest."""
    seen: tuple[tuple[int, int], ...] = ()
    """Base offsets and sizes of the segments when the log was last written down at rest."""
    seen_exact: bool = False
    """Whether nobody has touched the log since."""
    seen_gaps: Offset | None = None
    """Below it compaction might have left gaps then."""
    doubted: bool = False
    """A flush failed: what the page cache holds may not be on the disk."""

    @property
    def flushed(self) -> Offset:
        """Everything below was flushed, for sure."""
        return max(self.recovery_point, self.published)

    @property
    def own_files(self) -> bool:
        """Whether the small files beside the log are as we have written them last."""
        return self.same_boot or self.seen_exact
