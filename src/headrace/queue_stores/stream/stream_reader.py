"""A consumer's position in a stream, as a message store in which nothing is settled."""

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Protocol

from headrace.model.errors import HeadraceError
from headrace.queue_stores.message_store import Kept
from headrace.queue_stores.queue_settings import Published
from headrace.queue_stores.stream.nothing_settled import NothingSettled
from headrace.wire.amqp.content import Message

if TYPE_CHECKING:
    from headrace.queue_stores.stream.stream_chunk import Chunk

UNCOUNTED = 1 << 62
"""Number of messages a reader is said to have: those after its position are not counted."""


class ReadableLog(Protocol):
    """The log of a stream, as its readers see it. Implemented by `stream_reading.StreamReading`."""

    @property
    def start(self) -> int: ...

    @property
    def readable_end(self) -> int: ...

    def chunk(self, at: int, reader: "StreamReader") -> "Chunk | None":
        """Return a chunk that includes the offset `at`; None: not in memory."""

    def look_again(self) -> None:
        """Have readers called again after the others had their turn."""


class ReadStream(Protocol):
    """A stream, whose log may not exist yet. Implemented by `durable_stream.DurableStream`."""

    @property
    def end(self) -> int: ...

    @property
    def log(self) -> ReadableLog | None: ...


class StreamReader(NothingSettled):
    """A position in a stream that advances with deliveries. Implements `MessageStore`."""

    def __init__(self, stream: ReadStream, wanted: Collection[str] | None) -> None:
        """Create a reader of a stream.

        `wanted`: values of the filter, an empty one for messages without; None: all messages.
        """
        self.at = 0
        """The offset to read next, once the start is found."""
        self._stream = stream
        self._wanted = wanted
        self.has_begun = False
        self._awaited: list[Callable[[int], None]] = []

    def begin(self, at: int) -> None:
        """Begin to read the stream at an offset."""
        self.at = at
        self.has_begun = True
        awaited, self._awaited = self._awaited, []
        for begun in awaited:
            begun(at)

    def when_begun(self, begun: Callable[[int], None]) -> None:
        """Call `begun` with the offset of the start, now or once it is found."""
        if self.has_begun:
            begun(self.at)
        else:
            self._awaited.append(begun)

    @property
    def end(self) -> int:
        """Position after the last message of the stream."""
        return self._stream.end

    def kept(self) -> Kept:
        """Return contents with an unlimited number of messages, which are not counted."""
        return Kept(ready=UNCOUNTED)

    def append(self, published: Published, expires_at: float | None) -> int:
        """Raise HeadraceError: a reader has no messages of its own."""
        raise HeadraceError("a reader of a stream keeps no messages")

    def read(self, position: int, count: int) -> tuple[Sequence[int], Sequence[Message]]:
        """Return the next wanted offsets and messages that are in memory, at most `count`.

        A reader that retention has overtaken continues at the log's start.
        """
        log = self._stream.log
        if log is None or not self.has_begun:
            return (), ()
        at = self.at = max(self.at, log.start)
        chunk = log.chunk(at, self)
        if chunk is None:
            return (), ()
        readable_end = log.readable_end
        positions, messages = chunk.part(at, count, readable_end, self._wanted)
        if not positions:
            # Transaction markers, aborted records, or messages that the filter excludes.
            self.at = max(at, min(chunk.following, readable_end))
            if self.at < readable_end:
                log.look_again()
        return positions, messages

    def note_handed_out(self, below: int) -> None:
        """Continue reading the stream after the delivered messages."""
        self.at = below
