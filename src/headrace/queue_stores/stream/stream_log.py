"""A stream on its log: messages are written, and each reader reads committed ones.

Nothing is settled: the log's retention deletes messages, and the log's start is the lowest position
of a reader.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.broker.replica.joining import by_log, joins
from headrace.log.directory.holds import WantsNothing
from headrace.model.errors import ApiError, HeadraceError
from headrace.ports.callbacks import Done
from headrace.queue_stores.log.log_writing import LogWriting
from headrace.queue_stores.log.message_window import WindowsBytes
from headrace.queue_stores.message_store import Kept, StoreListener
from headrace.queue_stores.stream.nothing_settled import NothingSettled
from headrace.queue_stores.stream.stream_chunk import CACHE_BYTES_MAX, Chunk
from headrace.queue_stores.stream.stream_reader import StreamReader
from headrace.queue_stores.stream.stream_reading import StreamReading
from headrace.wire.amqp.content import Message

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.ports.clock import Clock
    from headrace.ports.disk import Disk


class StreamLog(NothingSettled, LogWriting, StreamReading):
    """The messages of a stream in a partition that this broker leads. Implements `OpenLog`."""

    def __init__(
        self,
        partition: "Partition",
        disk: "Disk",
        clock: "Clock",
        listener: StoreListener,
        readers: Mapping[StreamReader, None],
        *,
        own: bool = True,
        windows: WindowsBytes | None = None,
        cache_bytes_max: int = CACHE_BYTES_MAX,
    ) -> None:
        """Make the log; use it after `load`. `readers` are the present and later readers.

        `own`: the partition belongs to the stream and is deleted with it; else it is a Kafka
        topic's.
        """
        super().__init__(partition, clock, listener)
        self._begin_reading(disk, readers, windows, cache_bytes_max)
        self._holder = WantsNothing() if own else None
        """Lets retention delete any messages; readers continue at the log's start."""
        if not own:
            # Messages published to the stream go to the topic itself (`model.routing`).
            self._appends_refused = "a stream that reads a topic keeps no messages"

    # Beginning and end

    @property
    def end(self) -> int:
        """Position after the last message in the present log, which a topic's move replaces."""
        held = 0 if self._held is None else self._held.count
        return self._partition.log.end_offset + held + len(self._buffer)

    @property
    def counted_to(self) -> int:
        """Position below which all messages are committed."""
        return self._partition.readable_end(True)

    def load(self, done: Done[HeadraceError | None], settled: bytes | None = None) -> None:
        """Watch the partition and begin to serve; call `done(None)`."""
        self._partition.watch(self._advance)
        self._partition.may_join = by_log
        if self._holder is not None:
            self._log.context.holds.add(self._log.topic_partition, self._holder)
        done(None)
        self._advance()

    def kept(self) -> Kept:
        """Return empty contents: the queue delivers nothing, its readers do."""
        return Kept()

    def close(self, done: Callable[[], None]) -> None:
        """Write the stream's appended messages, then call `done`."""
        self._stop_appending()
        done()

    def _end(self, error: HeadraceError) -> None:
        self._stop_writing(error)
        self._partition.may_join = joins(self._log.topic_partition.topic)
        if self._holder is not None:
            self._log.context.holds.remove(self._log.topic_partition, self._holder)
        self._end_reading()

    # Written and committed messages

    def _has_transient(self) -> None:
        """Ignore the flag: a stream stores messages that are not persistent, too."""

    def _written(
        self,
        base: int,
        end: int,
        messages: Sequence[Message],
        expiries: Sequence[float | None],
    ) -> None:
        if not self._readers:
            return
        self._cache.pass_to(min(reader.at for reader in self._readers))
        self._cache.add(Chunk(base, end, range(base, end), messages))

    def _advance(self) -> None:
        if self._partition.refusal is not None:
            self._fail(ApiError(self._partition.refusal))
        if self.error is not None:
            return
        end = self._partition.readable_end(True)
        if end > self.readable_end:
            self.readable_end = end
            self._listener.readable()

    def _tell_readable(self) -> None:
        self._listener.readable()
