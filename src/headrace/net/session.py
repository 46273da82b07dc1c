"""What a connection's frames mean is for a session to say: the two sides' agreement."""

from typing import NamedTuple, Protocol

from headrace.model.errors import HeadraceError
from headrace.net.pending import Body, Pending


class CloseConnection(HeadraceError):
    """Raised by a session to end its connection by intent, after the answers already given."""


class InTurn(Exception):
    """Raised by a session for a frame that it takes once everything before it is answered."""


class Run(NamedTuple):
    """Consecutive frames answered together."""

    end: int
    """Where the first byte behind them lies."""
    frames: int
    answer: Body | Pending
    """The answers of all, in order."""


class Session(Protocol):
    """What a connection's frames mean. One per connection."""

    def frame(self, frame: memoryview) -> Body | Pending:
        """Answer one request, complete with its length prefix. `frame` excludes the length.

        The view is writable and valid until `pass_done` returns. Raises Malformed or
        CloseConnection to end the connection; InTurn, while `Connection.waits`, to be handed the
        same frame again when it no longer does.
        """

    def run(self, view: memoryview, at: int, filled: int) -> "Run | None":
        """Answer several of the frames in `view[at:filled]` at once, from the first on, or none.

        `at` is where the first one's length begins. Asked where one whole frame and more are there;
        the same as `frame` for each of them, and as bound to the view.
        """

    def pass_done(self) -> "Pending | None":
        """End the pass: all whole frames of one read were handed over, their answers leave next.

        Or once what is returned is done: nothing leaves, and nothing more is handled, before that.
        CloseConnection: the answers given in this pass must not leave; the connection ends.
        """

    def closed(self) -> None:
        """Forget what is kept for the connection: it is gone."""
