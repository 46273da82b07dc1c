"""What a client needs of the network, and what may go wrong there."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from headrace.model.errors import HeadraceError

if TYPE_CHECKING:
    import ssl

Buffer = bytes | bytearray | memoryview

RESPONSE_BYTES_MAX = 256 << 20
"""A longer announced response ends the connection."""


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ClientError(HeadraceError):
    """What a client could not do; its text is one line for people."""


class CannotConnect(ClientError):
    """Nobody answers at the address."""


class Untrusted(CannotConnect):
    """There is no TLS connection: one end does not believe the other, or they do not understand
    each other."""


class ConnectionLost(ClientError):
    """The connection ended while an answer was awaited: whether it was done is unknown."""

    alert = ""
    """What the other end said by TLS when it ended the connection, in words."""


class TimedOut(ClientError):
    """No answer in time: whether it was done is unknown."""


def cannot_connect(address: Address, error: OSError) -> CannotConnect:
    """Return why there is no connection, in words for people."""
    import ssl  # not where nothing went wrong

    where = f"cannot connect to {address}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return Untrusted(f"{where}: its certificate is refused: {error.verify_message}")
    if isinstance(error, ssl.SSLError):
        return Untrusted(
            f"{where}: no TLS connection: {_reason(error)} (does the listener speak TLS?)"
        )
    return CannotConnect(f"{where}: {(error.strerror or str(error)).lower()}")


def lost(address: Address, error: Exception | None) -> ConnectionLost:
    """Return why a connection has ended, in words for people."""
    import ssl  # not where nothing went wrong

    if isinstance(error, ssl.SSLError):
        found = ConnectionLost(f"{address}: connection lost: {_reason(error)}")
        found.alert = _reason(error)
        return found
    return ConnectionLost(f"{address}: connection lost: {error or 'closed by the broker'}")


def _reason(error: "ssl.SSLError") -> str:
    return str(error.reason or error).replace("_", " ").lower()


class Reply(Protocol):
    """An answer on its way."""

    async def wait(self, seconds: float) -> memoryview:
        """Wait for the response frame, without its length, the caller's own.

        TimedOut closes the connection: answers come in order, so no later one could come either.
        ConnectionLost.
        """


class Link(Protocol):
    """One connection. Requests may be sent before earlier ones are answered."""

    versions: dict[int, tuple[int, int]]
    """What the broker said it serves, by API key; empty until asked."""

    @property
    def address(self) -> Address: ...

    @property
    def closed(self) -> bool: ...

    def next_correlation_id(self) -> int:
        """Return the number of the next request."""

    def send(self, frame: Sequence[Buffer], *, answered: bool = True) -> Reply:
        """Send a whole request; ConnectionLost. `answered`: whether an answer will come."""

    def close(self) -> None: ...

    def retire(self) -> None:
        """Close once what was asked so far is answered, without loss."""


class Transport(Protocol):
    """Opens links and waits."""

    async def connect(self, address: Address, seconds: float) -> Link:
        """Open a connection; CannotConnect."""

    async def sleep(self, seconds: float) -> None: ...

    def now(self) -> float:
        """Return the seconds of a clock that never goes back."""


def parse_bootstrap(text: str, default_port: int = 9092) -> list[Address]:
    """Parse the addresses in `host:port,host:port`; ValueError says which one is wrong."""
    addresses = []
    for part in filter(None, (word.strip() for word in text.split(","))):
        host, colon, port = part.rpartition(":")
        if not colon or part.endswith("]") or (":" in host and not host.startswith("[")):
            host, port = part, str(default_port)
        host = host.removeprefix("[").removesuffix("]")
        if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) <= 65535:
            raise ValueError(f"{part!r} is not host:port")
        addresses.append(Address(host, int(port)))
    if not addresses:
        raise ValueError("no broker's address: needs host:port")
    return addresses
