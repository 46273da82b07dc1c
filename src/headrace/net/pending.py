"""`Pending`: an answer that will be given later.

A handler that waits (for a flush, for records, for a group) returns a `Pending` and resolves it
later, on the event loop. Answers leave a connection in the order of its requests, whatever the
order in which they are resolved.

    waiting ── resolve ──> done (sent in order)     waiting ── fail ──> connection closed
    waiting ── abandon ──> done (client gone)       waiting ── on_expire, deadline
"""

from typing import TYPE_CHECKING, Protocol

from headrace.ports.file_ranges import Part

if TYPE_CHECKING:
    from collections.abc import Callable

Body = bytes | list[Part] | None
"""An answer: one buffer, several parts in order, or None for no answer.

Ranges of files are read when they are sent.
"""


class Waiter(Protocol):
    """The sender of pending answers."""

    def answered(self) -> None:
        """Send ready answers, as a pending one of this connection was resolved."""

    def failed(self, problem: Exception) -> None:
        """Close the connection, as a pending answer failed."""


class Pending:
    """A place in a connection's queue of answers."""

    __slots__ = ("_waiter", "alone", "body", "done", "head", "on_abandon", "on_expire")

    def __init__(self, *, alone: bool = False) -> None:
        self.done = False
        self.alone = alone
        """Whether later requests on the connection are handled only after this answer has left.

        For large answers, one at a time, and answers that later requests may depend on.
        """
        self.body: Body = None
        self.head: Callable[[Body], Body] | None = None
        """Adds the response header to the body; set by the code that knows the request's header."""
        self.on_abandon: Callable[[], None] | None = None
        """Called once if the client disconnects before the answer is resolved."""
        self.on_expire: Callable[[], None] | None = None
        """Called if the deadline passes before the answer is resolved.

        Set by the owner of deadlines, which may hold this object long after the answer.
        """
        self._waiter: Waiter | None = None

    def resolve(self, body: Body) -> None:
        """Resolve the answer; only the first call counts, and none after the client
        disconnected."""
        if self.done:
            return
        self.done = True
        self.body = body
        self.on_abandon = self.on_expire = None
        if self._waiter is not None:
            self._waiter.answered()

    def fail(self, problem: Exception) -> None:
        """Close the connection, as the answer cannot be given."""
        if self.done:
            return
        waiter = self._waiter
        self.resolve(None)
        if waiter is not None:
            waiter.failed(problem)

    def wait_in(self, waiter: Waiter) -> None:
        """Enter the queue of `waiter`, which is notified when the answer is resolved."""
        self._waiter = waiter

    def abandon(self) -> None:
        """Cancel the work on the answer, as the client has disconnected."""
        self.body = None
        if self.done:
            return
        self.done = True
        self._waiter = self.on_expire = None
        abandoned, self.on_abandon = self.on_abandon, None
        if abandoned is not None:
            abandoned()

    def parts(self) -> Body:
        """Return the answer with its header, once resolved, for sending.

        The answer is released here.
        """
        body, self.body = self.body, None
        return body if self.head is None else self.head(body)
