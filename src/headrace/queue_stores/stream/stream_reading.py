"""The messages of a partition as the readers of a stream read them, on any of its replicas.

Readers share chunks, parts of the log in memory. A chunk that is not in memory is read and passed
to the readers that asked for it, even if the cache has no room.

On the deciding thread; reads from disk and decompression run on others.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from headrace.model.errors import ApiError, ErrorCode, HeadraceError
from headrace.queue_stores.log.message_reader import MessageReader, Read, as_error
from headrace.queue_stores.log.message_window import WindowsBytes
from headrace.queue_stores.queue_settings import StreamOffset, StreamStart
from headrace.queue_stores.stream.stream_chunk import CACHE_BYTES_MAX, Chunk, ChunkCache
from headrace.queue_stores.stream.stream_reader import StreamReader
from headrace.queue_stores.stream.stream_start import last_batch, offset_of_time

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.log.log import Log
    from headrace.ports.clock import Clock, Timer
    from headrace.ports.disk import Disk

READS_AT_ONCE = 8
"""Reads of a stream's log in one turn, and at the same time, at most."""


class StreamReading(ABC):
    """The committed messages of a partition. Implements `stream_reader.ReadableLog`."""

    error: HeadraceError | None
    """Why nothing is read any more; None: it works."""
    _partition: "Partition"
    _clock: "Clock"

    def _begin_reading(
        self,
        disk: "Disk",
        readers: Mapping[StreamReader, None],
        windows: WindowsBytes | None,
        cache_bytes_max: int = CACHE_BYTES_MAX,
    ) -> None:
        """Begin without chunks. `readers` are the present and later readers."""
        self.readable_end = 0
        """Position below which messages may be read."""
        self._disk = disk
        self._readers = readers
        self._reader = MessageReader(self._partition, disk, self._clock, None, None)
        self._cache = ChunkCache(windows or WindowsBytes(), cache_bytes_max)
        self._handed: dict[StreamReader, Chunk] = {}
        """Chunks read for a reader, until its turn."""
        self._asked: dict[int, list[StreamReader]] = {}
        """Offsets that are being read, with their readers."""
        self._reads = 0
        """Reads begun in this turn."""
        self._again = False
        """Whether a reader must be called again, though no other event will cause it."""
        self._again_timer: Timer | None = None

    def _end_reading(self) -> None:
        """Drop all chunks: nothing is read any more."""
        if self._again_timer is not None:
            self._again_timer.cancel()
        self._drop_chunks()

    def _drop_chunks(self) -> None:
        self._cache.clear()
        self._handed.clear()

    @property
    @abstractmethod
    def end(self) -> int:
        """Position after the last message."""

    @property
    def count(self) -> int:
        """Number of readable offsets of the stream, transaction markers included."""
        return max(0, self.readable_end - self.start)

    @property
    def start(self) -> int:
        """The log start offset of the stream's partition."""
        return self._partition.log.start_offset

    @abstractmethod
    def _tell_readable(self) -> None:
        """Have the readers called: more may be read."""

    @abstractmethod
    def _fail(self, error: HeadraceError) -> HeadraceError:
        """Read nothing any more, because of an error; return it."""

    # Chunks

    def chunk(self, at: int, reader: StreamReader) -> Chunk | None:
        """Return a chunk that includes the offset `at`; None: being read, or not readable."""
        if self.error is not None or at >= self.readable_end:
            return None
        handed = self._handed.pop(reader, None)
        if handed is not None and at in handed:
            return handed
        chunk = self._cache.find(at)
        if chunk is None:
            self._ask(at, reader)
            # The data may have been in the page cache.
            chunk = self._handed.pop(reader, None)
        return chunk

    def _ask(self, at: int, reader: StreamReader) -> None:
        asked = self._asked.get(at)
        if asked is not None:
            asked.append(reader)
            return
        if self._reads >= READS_AT_ONCE or len(self._asked) >= READS_AT_ONCE:
            self._again = True
            return
        self._reads += 1
        self._asked[at] = [reader]
        self._reader.read(at, self.readable_end, partial(self._have_read, at, self._partition.log))

    def _have_read(self, at: int, log: "Log", read: Read | HeadraceError, later: bool) -> None:
        asked = self._asked.pop(at)
        if isinstance(read, HeadraceError):
            if _passed_by_retention(read) or log is not self._partition.log:
                self._look_again()
            elif self.error is None:
                self._fail(read)
            return
        if self.error is not None:
            return
        chunk = Chunk(at, read.following, read.found.positions, read.found.messages)
        if self._readers:
            self._cache.add(chunk)
        self._handed.update(dict.fromkeys(asked, chunk))
        if later:
            self._tell_readable()

    def look_again(self) -> None:
        """Have readers called again after the others had their turn."""
        self._again = True

    def end_turn(self, *, complete: bool) -> None:
        """Note that readers had their turn; `complete`: all of them."""
        self._reads = 0
        if complete:
            self._handed.clear()
        if self._again and not self._asked:
            self._look_again()

    def _look_again(self) -> None:
        if self._again_timer is None:
            self._again_timer = self._clock.call_later(0, self._have_looked)

    def _have_looked(self) -> None:
        self._again, self._again_timer = False, None
        if self.error is None:
            self._tell_readable()

    def forget(self, reader: StreamReader) -> None:
        """Drop a removed reader's chunk."""
        self._handed.pop(reader, None)
        if not self._readers:
            self._cache.clear()

    # Start offsets

    def find(self, start: StreamOffset, done: Callable[[int], None]) -> None:
        """Call `done` with the offset that a reader's start means; now or later."""
        kind, value = start
        end, readable_end, log = self.end, self.readable_end, self._partition.log
        if kind in {StreamStart.FIRST, StreamStart.OFFSET}:
            done(value)
            return
        if kind is StreamStart.NEXT:
            done(end)
            return
        if kind is StreamStart.AGE:
            value = self._clock.wall_ms() - value

        def look() -> int:
            if kind is StreamStart.LAST:
                return last_batch(log, readable_end)
            return offset_of_time(log, value, end)

        def found(offset: int | BaseException) -> None:
            if self.error is not None:
                return
            if isinstance(offset, BaseException):
                error = as_error(offset)
                if _passed_by_retention(error) or log is not self._partition.log:
                    self.find(start, done)
                else:
                    self._fail(error)
                return
            done(offset)
            self._tell_readable()

        self._disk.run(look, found)


def _passed_by_retention(error: HeadraceError) -> bool:
    return isinstance(error, ApiError) and error.code is ErrorCode.OFFSET_OUT_OF_RANGE
