"""What the logs of one directory share: the disk, chance, and where failures go."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.model.errors import StorageError
from headrace.model.nouns import Offset, TopicPartition
from headrace.ports.clock import Random
from headrace.ports.disk import Disk

if TYPE_CHECKING:
    from headrace.log.log import Log

_START = Offset(0)


@dataclass(slots=True)
class Shared:
    """Handed to every Log of a directory."""

    disk: Disk
    random: Random
    failure: StorageError | None = None
    """Why the directory is fenced; None while it works."""
    unsynced: list[str] = field(default_factory=list)
    """Files that recovery takes for flushed and that may be in the page cache only yet."""
    damaged: int = 0
    """Damaged batches that reads or the scrub have met since the start."""
    failed: Callable[[OSError, str], None] | None = None
    """Told of every error of the disk below: error and path."""
    flush_soon: "Callable[[Log], None] | None" = None
    checkpoint_now: Callable[[], None] | None = None
    """Writes the checkpoints, blocking: before a log is cut below what they say. OSError."""
    publish: "Callable[[Collection[Log]], None] | None" = None
    """Told of logs that may be read further than before: see `bounds`."""
    lower: "Callable[[Log], None] | None" = None
    """Told before a log is cut below what was published; blocking. OSError, StorageError."""
    starts_moved: Callable[[], None] | None = None
    """Told that a log's start was moved by a client: the checkpoint is due."""
    before_cut: "Callable[[Log, Offset | None], None] | None" = None
    """Told before segments of a log go: the log, and where it will end (None: all of it goes)."""
    delay_removal: Callable[[int, Callable[[], None]], None] | None = None
    """(delay in ms, removal): do it later; at once where there is nobody to do it."""
    allow_gap: Callable[[TopicPartition, Offset], None] | None = None
    """Told, on any thread, that a log may have gaps below an offset: see `gaps`."""
    gaps_below: Callable[[TopicPartition], Offset] = lambda partition: _START
    """Below which offset a log may have gaps."""
    published: Callable[[bytes, int], Offset] = lambda topic_id, partition: _START
    """What readers were told is flushed of a log, by topic id and partition; 0: nothing."""
    unflushed: bool = False
    """Whether it was a flush that failed: the page cache may hold what the disk never will."""

    def fail(self, error: OSError, path: str, *, flush: bool = False) -> StorageError:
        """Fence the directory for good; returns what the caller raises.

        `flush`: written data could not be made durable, so it is not to be believed by reading it.
        """
        self.unflushed = self.unflushed or flush
        if self.failure is None:
            self.failure = StorageError(f"{path}: {error.strerror or error}")
            if self.failed is not None:
                self.failed(error, path)
        return self.failure

    def remove_later(self, delay_ms: int, removal: Callable[[], None]) -> None:
        """Run `removal` once `delay_ms` have passed."""
        if self.delay_removal is None:
            removal()
        else:
            self.delay_removal(delay_ms, removal)


@dataclass(frozen=True, slots=True)
class Known:
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
