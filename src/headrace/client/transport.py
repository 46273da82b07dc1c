"""What a client needs of the network, and what may go wrong there."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from headrace.model.errors import HeadraceError

Buffer = bytes | bytearray | memoryview

RESPONSE_BYTES_MAX = 256 << 20
"""A longer announced response ends the connection."""
_OF_CERTIFICATES = ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED")


LOCAL_PREFIX = "unix:"
"""What stands before the path of a Unix socket, in place of a host and its port."""


class Address(NamedTuple):
    """Where a broker listens: a host and a port, or `unix:PATH` and 0."""

    host: str
    port: int

    @property
    def local_path(self) -> str | None:
        """The path of the Unix socket for administration; None: it is a host."""
        local = self.host.startswith(LOCAL_PREFIX)
        return self.host.removeprefix(LOCAL_PREFIX) if local else None

    def __str__(self) -> str:
        if self.local_path is not None:
            return self.host
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ClientError(HeadraceError):
    """What a client could not do; its text is one line for people."""


class CannotConnect(ClientError):
    """Nobody answers at the address."""


class Refused(ClientError):
    """One side does not believe who the other says it is: trying again is of no use."""


class CertificateRefused(Refused, CannotConnect):
    """The broker's certificate is not believed."""


def cannot_connect(address: Address, error: OSError) -> CannotConnect:
    """Return why there is no connection, in words for people."""
    import ssl  # not where nothing went wrong

    if isinstance(error, ssl.SSLCertVerificationError):
        return CertificateRefused(
            f"cannot connect to {address}: its certificate is refused: {error.verify_message}"
        )
    if isinstance(error, ssl.SSLError):
        reason = str(error.reason or error).replace("_", " ").lower()
        why = f"no TLS connection: {reason} (does the listener speak TLS?)"
    else:
        why = (error.strerror or str(error)).lower()
    return CannotConnect(f"cannot connect to {address}: {why}")


class ConnectionLost(ClientError):
    """The connection ended while an answer was awaited: whether it was done is unknown."""


def connection_lost(address: Address, error: object) -> ClientError:
    """Return what became of a connection: Refused where the broker refused our certificate."""
    reason = str(getattr(error, "reason", None) or "")  # of an ssl.SSLError, in OpenSSL's words
    if "_ALERT_" in reason and any(word in reason for word in _OF_CERTIFICATES):
        what = reason.partition("_ALERT_")[2].replace("_", " ").lower()
        return Refused(
            f"{address}: the broker wants a certificate that it believes, and says: {what}"
        )
    return ConnectionLost(f"{address}: connection lost: {error}")


class TimedOut(ClientError):
    """No answer in time: whether it was done is unknown."""


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


class Transport(Protocol):
    """Opens links and waits."""

    async def connect(self, address: Address, seconds: float) -> Link:
        """Open a connection; CannotConnect."""

    async def sleep(self, seconds: float) -> None: ...

    def now(self) -> float:
        """Return the seconds of a clock that never goes back."""


def parse_bootstrap(text: str, default_port: int = 9092) -> list[Address]:
    """Parse the addresses in `host:port,host:port`, or the one in `unix:PATH`.

    ValueError says which one is wrong.
    """
    if text.strip().startswith(LOCAL_PREFIX):
        address = Address(text.strip(), 0)
        if not address.local_path:
            raise ValueError(f"{text!r} names no path: unix:DATA/admin.sock")
        return [address]
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
