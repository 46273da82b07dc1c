"""`DirectoryParts`: the logs and helpers of one log directory, shared by its components."""

from typing import TYPE_CHECKING

from headrace.log.directory.checkpoints import Checkpoints
from headrace.log.directory.log_dir_context import LogDirContext, LogDirectoryEvents
from headrace.log.directory.periods import Periods
from headrace.log.directory.state_files.durable_read_bounds import ReadBounds
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
    """The logs of one directory with its checkpoints, flusher, clock and other helpers."""

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
        self.index_writer = IndexWriter(self.context, clock, self.flusher)
        self.logs: dict[TopicPartition, Log] = {}
        self.quarantined: dict[TopicPartition, CorruptLogError] = {}
        """Partitions out of service because flushed records are damaged; their files are
        unchanged."""
        self.missing: dict[TopicPartition, Offset] = {}
        """End offsets of logs that have checkpoint entries but no directory; emptied by `start`.

        A partition still assigned here by then has lost its records (`refused`); the others' topics
        are deleted.
        """
        self.futures_left: dict[TopicPartition, tuple[str, bytes]] = {}
        """(name, topic id) of the `-future` directories that this start found, by partition."""
        self.strays: list[StrayLog] = []
        """The `-stray` directories that this start found, and those set aside since."""

    @property
    def fenced(self) -> bool:
        """Whether a disk error has fenced the directory."""
        return self.context.failure is not None
