"""Connections, as those who take and make them see them.

Both ends are asyncio's: a factory makes a protocol, whose `connection_made` is handed a transport.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from ssl import SSLContext

P = TypeVar("P")

BACKLOG_MAX = (1 << 31) - 1
"""The system takes its own limit for it."""


class ListenOptions(NamedTuple):
    """How an address is listened on."""

    backlog: int = BACKLOG_MAX
    """How many clients may wait that come before they are accepted."""
    send_buffer_bytes: int = -1
    """Of each connection; the system's own choice where it is not positive."""
    receive_buffer_bytes: int = -1
    """The same for the other direction."""


class Listening(Protocol):
    """An address that is listened on."""

    @property
    def port(self) -> int:
        """The port, chosen by the system where 0 was asked for."""

    async def accept(self, made: Callable[[], Any]) -> None:
        """Begin to accept; `made` makes the asyncio protocol of each connection."""

    def close(self) -> None:
        """Accept no more. Connections there are stay."""


class Network(Protocol):
    """What one machine sees of the network."""

    def host_name(self) -> str:
        """Return the machine's own name."""

    def listen(self, host: str, port: int, options: ListenOptions) -> Listening:
        """Take an address: "" is every one of the machine's, port 0 any free one. OSError.

        Nothing is accepted yet; up to `options.backlog` clients that come early wait.
        """

    def listen_local(self, path: str, backlog: int = BACKLOG_MAX) -> Listening | None:
        """Take the Unix socket `path`, for this machine's own user; None: this world has none.

        A file left by a broker that is gone is replaced. OSError: one that listens is there, or
        something else, or others may write to the directory. `close` removes the file.
        """

    async def connect(
        self, made: Callable[[], P], host: str, port: int, tls: "SSLContext | None" = None
    ) -> P:
        """Connect the asyncio protocol that `made` makes, and return it connected. OSError.

        `tls`: what the connection is encrypted and the other end verified by; None: plain text.
        """
