"""`Session`: the interface between a connection and a protocol that answers requests."""

from typing import NamedTuple, Protocol

from headrace.model.errors import HeadraceError
from headrace.net.pending import Body, Pending


class CloseConnection(HeadraceError):
    """Raised by a session to close its connection on purpose, after earlier answers."""


class InTurn(Exception):
    """Raised by a session to get a frame again once everything before it is answered."""


class Run(NamedTuple):
    """Consecutive frames that were answered together."""

    end: int
    """Position of the first byte behind the frames."""
    frames: int
    answer: Body | Pending
    """The answers of all frames, in order."""


class Session(Protocol):
    """A protocol's handler of one connection's frames."""

    def frame(self, frame: memoryview) -> Body | Pending:
        """Return the answer to one request, with its length prefix. `frame` has no length prefix.

        The view is writable and valid until `pass_done` returns. Raises Malformed or
        CloseConnection to close the connection; InTurn, while `Connection.waits`, to get the frame
        again later.
        """

    def run(self, view: memoryview, at: int, filled: int) -> "Run | None":
        """Answer several of the frames in `view[at:filled]` at once, from the first on; None: none.

        `at` is the position of the first one's length. Called if more than one whole frame has
        arrived. Same result and view rules as `frame`.
        """

    def pass_done(self) -> "Pending | None":
        """End the pass: all whole frames of one read were handled, their answers leave next.

        If a Pending is returned, nothing leaves and nothing more is handled before it is resolved.
        CloseConnection: the pass's answers must not leave; the connection is closed.
        """

    def closed(self) -> None:
        """Free the resources of the closed connection."""
