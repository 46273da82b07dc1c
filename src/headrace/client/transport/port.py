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


class Unanswered(CannotConnect):
    """The address did not answer a connection attempt in time."""


class Refused(ClientError):
    """One side does not believe who the other says it is: trying again is of no use."""


class OtherProtocol(Refused):
    """The listener speaks another protocol than Kafka's."""


class Untrusted(CannotConnect):
    """There is no TLS connection: one end does not believe the other, or they do not understand
    each other."""


class CertificateRefused(Refused, Untrusted):
    """One end's certificate is not believed by the other."""


class ConnectionLost(ClientError):
    """The connection ended while an answer was awaited: whether it was done is unknown."""


class TimedOut(ClientError):
    """No answer in time: whether it was done is unknown."""


def cannot_connect(address: Address, error: OSError) -> CannotConnect:
    """Return why there is no connection, in words for people."""
    import ssl  # not where nothing went wrong

    where = f"cannot connect to {address}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return CertificateRefused(f"{where}: its certificate is refused: {error.verify_message}")
    if not isinstance(error, ssl.SSLError):
        return CannotConnect(f"{where}: {(error.strerror or str(error)).lower()}")
    return _certificate_refused(address, error) or Untrusted(
        f"{where}: no TLS connection: {_words(error.reason or str(error))}"
        " (does the listener speak TLS?)"
    )


def connection_lost(address: Address, error: object) -> "ConnectionLost | CertificateRefused":
    """Return why a connection has ended, in words for people.

    As of TLS 1.3 a client hears only after its own half of the handshake that the broker does not
    believe its certificate.
    """
    return _certificate_refused(address, error) or ConnectionLost(
        f"{address}: connection lost: {error or 'closed by the broker'}"
    )


def unreadable_answer(address: Address, first: bytes) -> "ConnectionLost | OtherProtocol":
    """Return why a connection ends whose broker's answer begins with these bytes, its length."""
    from headrace.wire.first_bytes import TLS, server_protocol

    row = server_protocol(first)
    if row is None:
        size = int.from_bytes(first[:4], "big", signed=True)
        return ConnectionLost(f"{address}: connection lost: an answer of {size} bytes announced")
    if row is TLS:
        advice = "set security.protocol to SSL or SASL_SSL in the client's settings"
        return OtherProtocol(f"{address}: this listener speaks TLS; {advice}")
    return OtherProtocol(f"{address}: this is {row.client} listener, not Kafka's; check the port")


def _certificate_refused(address: Address, error: object) -> CertificateRefused | None:
    """Return what a broker means by its alert, where it speaks of our certificate."""
    reason = str(getattr(error, "reason", None) or "")  # of an ssl.SSLError, in OpenSSL's words
    if "_ALERT_" not in reason or not any(word in reason for word in _OF_CERTIFICATES):
        return None
    said = _words(reason.partition("_ALERT_")[2])
    return CertificateRefused(
        f"cannot connect to {address}: the broker wants a certificate that it believes, and says:"
        f" {said}"
    )


def _words(reason: str) -> str:
    return reason.replace("_", " ").lower()


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
