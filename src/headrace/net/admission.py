"""`Admission`: the interface of the connection table to a new connection."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from headrace.net.answering import Turns
from headrace.net.buffers import BufferPool
from headrace.net.foreign_clients import ForeignClients
from headrace.ports.clock import Timer

if TYPE_CHECKING:
    from headrace.net.session import Session
    from headrace.net.stream import StreamSession


C = TypeVar("C", contravariant=True)


class Admission(Turns, Protocol[C]):
    """Admits connections and owns what they share. Implemented by `table.ConnectionTable`."""

    scratch: memoryview
    pool: BufferPool
    foreign: ForeignClients
    """Recognises clients of another protocol than their listener's."""
    blocked: int
    """How often requests of a connection were held back."""

    def call_later(self, seconds: float, callback: Callable[[], None], /) -> Timer:
        """Call `callback` in `seconds` seconds."""

    def queues(self, connection: C, /) -> bool:
        """Return whether a new connection must queue for a rate limit; `let_in` is called later."""

    def holds_off(self, connection: C, /) -> bool:
        """Return whether a new connection exceeds its address's rate; it is closed after a
        delay."""

    def admit(self, connection: C, /) -> "Session | StreamSession | None":
        """Return a session for a new connection, or None if a limit refuses it."""

    def leave(self, connection: C, /) -> None:
        """Remove a closed connection."""

    def wait_for_memory(self, connection: C, /) -> None:
        """Call the connection's `memory_freed` once a large frame may be received again."""
