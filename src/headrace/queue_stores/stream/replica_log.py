"""A stream as its readers read it from this broker's replica of the partition, in any role.

    follows, leads, or waits for a leader    read up to the replica's own high watermark
    closed: deleted, moved, its disk failed  `failed` is called, and nothing is read any more

A follower's high watermark is the last one that its leader has told it, so what is read here is
committed. Only an unclean election lowers it: chunks above are read again then.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from headrace.model.errors import ApiError, ErrorCode, HeadraceError
from headrace.queue_stores.log.message_window import WindowsBytes
from headrace.queue_stores.stream.stream_chunk import Chunk
from headrace.queue_stores.stream.stream_reader import StreamReader
from headrace.queue_stores.stream.stream_reading import StreamReading

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.ports.clock import Clock
    from headrace.ports.disk import Disk


class ReplicaListener(Protocol):
    """The owner of a replica's readers, as their log sees it."""

    def readable(self) -> None:
        """Have the readers called: more may be read."""

    def failed(self, error: HeadraceError) -> None:
        """Note that nothing is read any more."""


class ReplicaLog(StreamReading):
    """The committed messages of a replica. It is only read: its leader appends to it."""

    def __init__(
        self,
        partition: "Partition",
        disk: "Disk",
        clock: "Clock",
        listener: ReplicaListener,
        readers: Mapping[StreamReader, None],
        windows: WindowsBytes | None = None,
    ) -> None:
        """Begin to follow the partition's high watermark. `readers`: present and later ones."""
        self.error = None
        self.partition = self._partition = partition
        self._clock = clock
        self._listener = listener
        self._begin_reading(disk, readers, windows)
        self.readable_end = partition.readable_end(True)
        self._truncations = partition.log.truncations
        partition.watch(self._advance)

    @property
    def end(self) -> int:
        """Position after the last message that is known to be committed."""
        return self.readable_end

    def close(self) -> None:
        """Read nothing any more, and drop what was read."""
        self._stop(HeadraceError("the replica's readers have left"))

    def _advance(self) -> None:
        partition = self._partition
        if partition.role.closed:
            self._fail(ApiError(partition.refusal or ErrorCode.NOT_LEADER_OR_FOLLOWER))
            return
        self._see_truncations()
        self.readable_end = partition.readable_end(True)
        self._listener.readable()

    def _see_truncations(self) -> None:
        """Drop the chunks once the log was truncated: its offsets may have other messages now."""
        log = self._partition.log
        if log.truncations != self._truncations:
            self._truncations = log.truncations
            self._drop_chunks()
            self.readable_end = self._partition.readable_end(True)

    def chunk(self, at: int, reader: StreamReader) -> Chunk | None:
        """Return a chunk that includes the offset `at`; None: being read, or not readable."""
        self._see_truncations()
        return super().chunk(at, reader)

    def _tell_readable(self) -> None:
        self._listener.readable()

    def _fail(self, error: HeadraceError) -> HeadraceError:
        if self.error is None:
            self._stop(error)
            self._listener.failed(error)
        return self.error or error

    def _stop(self, error: HeadraceError) -> None:
        self.error = error
        self._partition.unwatch(self._advance)
        self._end_reading()
