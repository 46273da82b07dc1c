"""An answer that is not there yet.

A handler that must wait (for a flush, for records to arrive, for a group to assemble) returns a
`Pending` and resolves it later, from the event loop. Answers leave a connection in the order of its
requests whatever the order in which they are resolved.
"""

from typing import TYPE_CHECKING, Protocol

from headrace.ports.file_ranges import Part

if TYPE_CHECKING:
    from collections.abc import Callable

Body = bytes | list[Part] | None
"""An answer: one buffer, several to be sent one after the other, or none at all. Ranges of files
are read when they are sent."""


class Waiter(Protocol):
    """Who sends a pending answer once it is there."""

    def answered(self) -> None:
        """Send what may go: a pending answer of this connection has been resolved."""

    def failed(self, problem: Exception) -> None:
        """End the connection: a pending answer of it cannot be given."""


class Pending:
    """A place kept in a connection's queue of answers."""

    __slots__ = ("_waiter", "alone", "body", "done", "head", "on_abandon", "on_expire")

    def __init__(self, *, alone: bool = False) -> None:
        self.done = False
        self.alone = alone
        """Whether what stands behind it on its connection is handled only when it has left: a large
        answer, of which one at a time is enough, or one that what follows may depend on."""
        self.body: Body = None
        self.head: Callable[[Body], Body] | None = None
        """Puts the response header before the body; set by who knows the request's header."""
        self.on_abandon: Callable[[], None] | None = None
        """Called once if the client goes before the answer is there: stop waiting, free watches."""
        self.on_expire: Callable[[], None] | None = None
        """Called if the deadline passes before the answer is there; set by who keeps deadlines and
        may know of this answer long after it was given."""
        self._waiter: Waiter | None = None

    def resolve(self, body: Body) -> None:
        """Give the answer. Only the first call counts; none after the client has gone does."""
        if self.done:
            return
        self.done = True
        self.body = body
        self.on_abandon = self.on_expire = None
        if self._waiter is not None:
            self._waiter.answered()

    def fail(self, problem: Exception) -> None:
        """End the connection: there is no answer and never will be."""
        if self.done:
            return
        waiter = self._waiter
        self.resolve(None)
        if waiter is not None:
            waiter.failed(problem)

    def wait_in(self, waiter: Waiter) -> None:
        """Take a place in the queue of `waiter`, which is told when the answer is there."""
        self._waiter = waiter

    def abandon(self) -> None:
        """Tell whoever works on the answer that the client has gone."""
        self.body = None
        if self.done:
            return
        self.done = True
        self._waiter = self.on_expire = None
        abandoned, self.on_abandon = self.on_abandon, None
        if abandoned is not None:
            abandoned()

    def parts(self) -> Body:
        """Return the answer with its header, once resolved: for whoever sends it.

        It is not kept here.
        """
        body, self.body = self.body, None
        return body if self.head is None else self.head(body)
