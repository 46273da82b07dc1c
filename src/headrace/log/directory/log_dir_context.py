"""`LogDirContext`: the disk, random numbers, holds and failure state shared by a directory's
logs."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from headrace.log.directory.holds import Holds
from headrace.model.errors import StorageError
from headrace.model.nouns import Offset, TopicPartition
from headrace.ports.clock import Random
from headrace.ports.disk import Disk

LogT = TypeVar("LogT", contravariant=True)
"""Stands for `log.Log`, whose module imports this one."""


class LogDirectoryEvents(Protocol[LogT]):
    """The services of a log directory to its logs, and their notifications. See `LogDirectory`."""

    def failed(self, error: OSError, path: str) -> None:
        """Log the directory's first disk error and notify listeners; it is fenced now."""

    def flush_soon(self, log: LogT) -> None:
        """Request a flush of everything that `log` holds now."""

    def write_indexes_soon(self, log: LogT) -> None:
        """Write the index entries of the log's active segment to its files within a second."""

    def publish(self, logs: Collection[LogT]) -> None:
        """Publish to readers of the files how far these logs may be read."""

    def start_moved(self) -> None:
        """Note that DeleteRecords moved a log's start, so that a checkpoint is due."""

    def let_go(self, log: LogT, below: Offset) -> None:
        """Delete segments below the log's start, and middle segments that no hold needs.

        Middle segments only if they lie wholly below offset `below`.
        """

    def about_to_cut(self, log: LogT, end: Offset | None) -> None:
        """Note that segments of `log` are being removed; it will end at `end` (None: all
        removed)."""

    def remove_later(self, delay_ms: int, removal: Callable[[], None]) -> None:
        """Run `removal` after `delay_ms` milliseconds, outside of flushes."""

    def allow_gap(self, partition: TopicPartition, below: Offset) -> None:
        """Record that the log may have gaps below an offset. On any thread. See `recovery.gaps`."""

    def gap_appended(self, log: LogT, below: Offset) -> None:
        """Record a gap that is about to be appended; durable with the log's next flush."""

    def gaps_below(self, partition: TopicPartition) -> Offset:
        """Return the offset below which a log may have gaps."""

    def published_end(self, topic_id: bytes, partition: int) -> Offset:
        """Return the published end offset of a log in the read bounds, or 0. On any thread."""


@dataclass(slots=True)
class LogDirContext(Generic[LogT]):
    """The state that all logs of a directory share."""

    disk: Disk
    random: Random
    events: LogDirectoryEvents[LogT]
    producers_max: int | None = None
    """Most producers stored per log; None: no limit."""
    holds: Holds = field(default_factory=Holds)
    """Records still needed by queues and others: consulted before any are deleted."""
    failure: StorageError | None = None
    """The error that fenced the directory; None while it works."""
    low: str = ""
    """Why clients' records are refused while free space is low; empty if they are accepted."""
    full: bool = False
    """Whether followers' fetches are paused too, as almost no space is left."""
    unsynced: list[str] = field(default_factory=list)
    """Files that recovery treats as flushed although they may be in the page cache only."""
    damaged: int = 0
    """Number of damaged batches found by reads and the scrub since the start."""
    unflushed: bool = False
    """Whether a flush failed: the page cache may hold data that the disk never gets."""

    def fail(self, error: OSError, path: str, *, flush: bool = False) -> StorageError:
        """Fence the directory until a restart; return the StorageError for the caller to raise.

        `flush`: an fsync failed, so written data must not be trusted when it is read back.
        """
        self.unflushed = self.unflushed or flush
        if self.failure is None:
            self.failure = StorageError(f"{path}: {error.strerror or error}")
            self.events.failed(error, path)
        return self.failure
