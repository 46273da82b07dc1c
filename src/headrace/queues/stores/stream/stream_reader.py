"""What one consumer sees of a stream, as a message store of his own in which nothing is settled."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Protocol

from headrace.model.errors import HeadraceError
from headrace.queues.message_store import Kept
from headrace.queues.queue_settings import Published
from headrace.queues.stores.stream.nothing_settled import NothingSettled
from headrace.wire.amqp.content import Message

if TYPE_CHECKING:
    from headrace.queues.stores.stream.stream_chunk import Chunk

UNCOUNTED = 1 << 62
"""How many messages a reader may be given: nobody counts what lies before him."""


class ReadableLog(Protocol):
    """The log of a stream, as its readers see it. `stream_log.StreamLog`"""

    @property
    def start(self) -> int: ...

    @property
    def readable_end(self) -> int: ...

    def chunk(self, at: int, reader: "StreamReader") -> "Chunk | None":
        """Return a stretch that tells of the offset `at`; None: not at hand."""

    def look_again(self) -> None:
        """Have readers called once more when others had their turn."""


class ReadStream(Protocol):
    """A stream, whose log may be still to come. `durable_stream.DurableStream`"""

    @property
    def end(self) -> int: ...

    @property
    def log(self) -> ReadableLog | None: ...


class StreamReader(NothingSettled):
    """A place in a stream that moves on as messages are handed out. `MessageStore`"""

    def __init__(self, stream: ReadStream, wanted: Collection[str] | None) -> None:
        """`wanted`: values of the filter, the empty one: messages without one; None: all."""
        self.at = 0
        """The offset to be read next, as far as it is found."""
        self._stream = stream
        self._wanted = wanted
        self._begun = False

    def begin(self, at: int) -> None:
        """Read from the offset `at` on."""
        self.at = at
        self._begun = True

    @property
    def end(self) -> int:
        """The position above all that are kept."""
        return self._stream.end

    def kept(self) -> Kept:
        """Return what there is: nobody counts it."""
        return Kept(ready=UNCOUNTED)

    def append(self, published: Published, expires_at: float | None) -> int:
        """Raise HeadraceError: a reader publishes nothing."""
        raise HeadraceError("a reader of a stream keeps no messages")

    def read(self, position: int, count: int) -> tuple[Sequence[int], Sequence[Message]]:
        """Return the next offsets and messages that are wanted and at hand, at most `count`.

        The log's start counts where retention has passed the reader.
        """
        log = self._stream.log
        if log is None or not self._begun:
            return (), ()
        at = self.at = max(self.at, log.start)
        chunk = log.chunk(at, self)
        if chunk is None:
            return (), ()
        readable_end = log.readable_end
        positions, messages = chunk.part(at, count, readable_end, self._wanted)
        if not positions:
            # Markers of transactions, what was aborted, or what nobody asked for.
            self.at = max(at, min(chunk.following, readable_end))
            if self.at < readable_end:
                log.look_again()
        return positions, messages

    def note_handed_out(self, below: int) -> None:
        """Go on behind what was handed out."""
        self.at = below
