"""What a log directory is made of, for those who do its work."""

from typing import TYPE_CHECKING

from headrace.log.directory.checkpoints import Checkpoints
from headrace.log.directory.durable_read_bounds import ReadBounds
from headrace.log.directory.log_dir_context import LogDirContext, LogDirectoryEvents
from headrace.log.directory.periods import Periods
from headrace.log.directory.unchanged_logs import AtRest
from headrace.log.flusher import Flusher, Strategy
from headrace.log.index_writer import IndexWriter
from headrace.log.log import Log
from headrace.log.recovery.gaps import Gaps
from headrace.ports.clock import Clock, Random
from headrace.ports.disk import Disk

if TYPE_CHECKING:
    from headrace.log.directory.stray_logs import StrayLog
    from headrace.model.errors import CorruptLogError
    from headrace.model.nouns import Offset, TopicPartition


class DirectoryParts:
    """The logs of one directory, the files beside them, and what they are worked with."""

    __slots__ = (
        "at_rest", "bounds", "checkpoints", "clock", "context", "disk", "flusher", "futures_left",
        "gaps", "index_writer", "logs", "missing", "path", "periods", "quarantined", "random",
        "strays",
    )  # fmt: skip

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        random: Random,
        path: str,
        *,
        periods: Periods,
        strategy: Strategy,
        events: LogDirectoryEvents[Log],
    ) -> None:
        self.path = path
        self.disk = disk
        self.clock = clock
        self.random = random
        self.periods = periods
        self.context = LogDirContext(disk, random, events, producers_max=periods.producers_max)
        self.checkpoints = Checkpoints(self.context, path)
        self.at_rest = AtRest(self.context, path)
        self.bounds = ReadBounds(self.context, path)
        self.gaps = Gaps(disk, path)
        self.flusher = Flusher(self.context, clock, self.bounds.publish, strategy)
        self.index_writer = IndexWriter(self.context, clock, self.flusher.after_current)
        self.logs: dict[TopicPartition, Log] = {}
        self.quarantined: dict[TopicPartition, CorruptLogError] = {}
        """Partitions out of service: damaged below what was surely flushed. Left as they are."""
        self.missing: dict[TopicPartition, Offset] = {}
        """Partitions without a directory of which the checkpoints know flushed records, and where
        those ended; until the duties begin. Those still wanted by then were lost (`refused`), the
        others' topics are gone."""
        self.futures_left: dict[TopicPartition, tuple[str, bytes]] = {}
        """Names and topic ids of `-future` directories that this start has found."""
        self.strays: list[StrayLog] = []
        """`-stray` directories that this start has found."""

    @property
    def fenced(self) -> bool:
        """Whether the directory has failed."""
        return self.context.failure is not None
