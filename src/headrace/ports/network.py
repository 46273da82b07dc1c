"""`Network` and `Listening`: connect and listen, with asyncio protocols on both ends.

A factory makes a protocol; its `connection_made` gets a transport.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from ssl import SSLContext

P = TypeVar("P")

BACKLOG_MAX = (1 << 31) - 1
"""Larger than any system's own limit, which then applies."""


class ListenOptions(NamedTuple):
    """Socket options of a listening address."""

    backlog: int = BACKLOG_MAX
    """Connections that may wait to be accepted."""
    send_buffer_bytes: int = -1
    """Send buffer of each connection in bytes; the system's default if not positive."""
    receive_buffer_bytes: int = -1
    """Receive buffer of each connection in bytes; the system's default if not positive."""


class Listening(Protocol):
    """A bound address that clients connect to."""

    @property
    def port(self) -> int:
        """The bound port; the system's choice if 0 was requested."""

    async def accept(self, made: Callable[[], Any]) -> None:
        """Start accepting; `made` makes the asyncio protocol of each connection."""

    def close(self) -> None:
        """Stop accepting; open connections stay."""


class Network(Protocol):
    """The network as one machine sees it."""

    def host_name(self) -> str:
        """Return the machine's host name."""

    def listen(self, host: str, port: int, options: ListenOptions) -> Listening:
        """Bind an address: "" is every local address, port 0 any free port. Raises OSError.

        Nothing is accepted yet; up to `options.backlog` early clients wait.
        """

    def listen_local(self, path: str, backlog: int = BACKLOG_MAX) -> Listening | None:
        """Bind the Unix socket `path` for this machine's user; None if the world has none.

        A file left by a stopped broker is replaced. OSError: another process listens, the path is
        another file, or other users may write to the directory. `close` removes the file.
        """

    async def connect(
        self, made: Callable[[], P], host: str, port: int, tls: "SSLContext | None" = None
    ) -> P:
        """Connect the protocol made by `made` to a host, and return it when connected.

        Raises OSError. `tls`: context for encryption and server verification; None: plain text.
        """
