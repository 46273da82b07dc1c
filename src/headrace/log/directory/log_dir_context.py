"""What the logs of one directory share: the disk, chance, holds, and where failures go."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from headrace.log.directory.holds import Holds
from headrace.model.errors import StorageError
from headrace.model.nouns import Offset, TopicPartition
from headrace.ports.clock import Random
from headrace.ports.disk import Disk

LogT = TypeVar("LogT", contravariant=True)
"""`log.Log`, which holds a context and so cannot be named here."""


class LogDirectoryEvents(Protocol[LogT]):
    """What the logs of a directory ask of it, and tell it. `LogDirectory` is one."""

    def failed(self, error: OSError, path: str) -> None:
        """Fence the directory: the first error of the disk below."""

    def flush_soon(self, log: LogT) -> None:
        """Make all that `log` holds now durable."""

    def write_indexes_soon(self, log: LogT) -> None:
        """Write the index entries of the active segment to its files within a second."""

    def publish(self, logs: Collection[LogT]) -> None:
        """Let readers of the files go as far as these logs' high watermarks and flushes allow."""

    def start_moved(self) -> None:
        """Note that a client moved a log's start: the checkpoint is due."""

    def let_go(self, log: LogT, below: Offset) -> None:
        """Delete, now or soon, what lies below the log's start, and what nobody wants (`Holds`).

        Between others, whole segments below `below`.
        """

    def about_to_cut(self, log: LogT, end: Offset | None) -> None:
        """Note that segments of `log` go at once; it will end at `end` (None: all of it goes)."""

    def remove_later(self, delay_ms: int, removal: Callable[[], None]) -> None:
        """Run `removal` once `delay_ms` have passed and no flush holds its files."""

    def allow_gap(self, partition: TopicPartition, below: Offset) -> None:
        """Allow the log gaps below an offset. Called on any thread. See `recovery.gaps`."""

    def gap_appended(self, log: LogT, below: Offset) -> None:
        """Allow a gap that is about to be appended; durable with the log's next flush."""

    def gaps_below(self, partition: TopicPartition) -> Offset:
        """Return the offset below which a log may have gaps."""

    def published_end(self, topic_id: bytes, partition: int) -> Offset:
        """Return the end that readers were told is flushed of a log; 0: none. On any thread."""


@dataclass(slots=True)
class LogDirContext(Generic[LogT]):
    """Handed to every Log of a directory."""

    disk: Disk
    random: Random
    events: LogDirectoryEvents[LogT]
    producers_max: int | None = None
    """Producers that each log remembers at most; None: any number."""
    holds: Holds = field(default_factory=Holds)
    """Who still wants which records: asked before any go."""
    failure: StorageError | None = None
    """Why the directory is fenced; None while it works."""
    low: str = ""
    """Why clients' records are refused while the file system is short of room; empty: it is not."""
    full: bool = False
    """Whether followers fetch nothing into the directory either, for there is hardly any room."""
    unsynced: list[str] = field(default_factory=list)
    """Files that recovery takes for flushed and that may be in the page cache only yet."""
    damaged: int = 0
    """Damaged batches that reads or the scrub have met since the start."""
    unflushed: bool = False
    """Whether it was a flush that failed: the page cache may hold what the disk never will."""

    def fail(self, error: OSError, path: str, *, flush: bool = False) -> StorageError:
        """Fence the directory for good; returns what the caller raises.

        `flush`: written data could not be made durable, so it is not to be believed by reading it.
        """
        self.unflushed = self.unflushed or flush
        if self.failure is None:
            self.failure = StorageError(f"{path}: {error.strerror or error}")
            self.events.failed(error, path)
        return self.failure
