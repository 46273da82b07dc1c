"""What a connection asks of who keeps them all."""

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
    """What a connection asks of who keeps them all. `table.ConnectionTable`."""

    scratch: memoryview
    pool: BufferPool
    foreign: ForeignClients
    """Recognises clients that came to a listener of another protocol."""
    blocked: int
    """How often a connection's requests were held back."""

    def call_later(self, seconds: float, callback: Callable[[], None], /) -> Timer:
        """Call `callback` in so many seconds."""

    def queues(self, connection: C, /) -> bool:
        """Say whether a new connection must wait for its turn: `let_in` is called then."""

    def holds_off(self, connection: C, /) -> bool:
        """Say whether a new connection comes too soon after others: it is ended in a while."""

    def admit(self, connection: C, /) -> "Session | StreamSession | None":
        """Return a session for a new connection, or None where a limit refuses it."""

    def leave(self, connection: C, /) -> None:
        """Forget a connection that is gone."""

    def wait_for_memory(self, connection: C, /) -> None:
        """Call the connection's `memory_freed` when large frames may be received again."""
