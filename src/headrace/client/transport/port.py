"""The network interface that the client needs, and its errors."""

import re
from collections.abc import Sequence
from errno import ECONNREFUSED
from typing import NamedTuple, Protocol

from headrace.model.errors import HeadraceError

Buffer = bytes | bytearray | memoryview

RESPONSE_BYTES_MAX = 256 << 20
"""Longest response, in bytes: a longer announced one closes the connection."""
_OF_CERTIFICATES = ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED")


LOCAL_PREFIX = "unix:"
"""Prefix of an address that is the path of a Unix socket."""


class Address(NamedTuple):
    """A broker's address: host and port, or `unix:PATH` and 0."""

    host: str
    port: int

    @property
    def local_path(self) -> str | None:
        """Path of the Unix socket for administration; None if the address is host and port."""
        local = self.host.startswith(LOCAL_PREFIX)
        return self.host.removeprefix(LOCAL_PREFIX) if local else None

    def __str__(self) -> str:
        if self.local_path is not None:
            return self.host
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ClientError(HeadraceError):
    """A failure of the client; its text is one line for people."""


class CannotConnect(ClientError):
    """No connection could be opened to the address."""


class NotListening(CannotConnect):
    """The address refuses connections: the machine answers, and no process listens there."""


class Unanswered(CannotConnect):
    """The address did not answer a connection attempt in time."""


class Refused(ClientError):
    """Authentication failed on either side; a retry will not help."""


class OtherProtocol(Refused):
    """The listener speaks another protocol than Kafka's."""


class Untrusted(CannotConnect):
    """TLS failed: a certificate was refused, or the two sides have no TLS in common."""


class CertificateRefused(Refused, Untrusted):
    """Client or broker refused the other's TLS certificate."""


class ConnectionLost(ClientError):
    """The connection closed before the response; the broker may or may not have acted."""


class TimedOut(ClientError):
    """No response in time; the broker may or may not have acted on the request."""


def cannot_connect(address: Address, error: OSError) -> CannotConnect:
    """Convert an error of connecting to the client's error, worded for people."""
    import ssl  # not where nothing went wrong

    where = f"cannot connect to {address}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return CertificateRefused(f"{where}: its certificate is refused: {error.verify_message}")
    if not isinstance(error, ssl.SSLError):
        kind = NotListening if _is_refused(error) else CannotConnect
        return kind(f"{where}: {(error.strerror or str(error)).lower()}")
    return _certificate_refused(address, error) or Untrusted(
        f"{where}: no TLS connection: {_words(error.reason or str(error))}"
        " (does the listener speak TLS?)"
    )


def _is_refused(error: OSError) -> bool:
    """Return whether each address of the host refused the connection.

    asyncio puts the errors of several addresses into the text of one without a number.
    """
    numbers = re.findall(r"\[Errno (-?\d+)\]", str(error)) if error.errno is None else ()
    return error.errno == ECONNREFUSED or {*map(int, numbers)} == {ECONNREFUSED}


def connection_lost(address: Address, error: object) -> "ConnectionLost | CertificateRefused":
    """Convert the error that closed a connection to the client's error, worded for people.

    With TLS 1.3 a refusal of the client's certificate arrives only after the client's handshake.
    """
    return _certificate_refused(address, error) or ConnectionLost(
        f"{address}: connection lost: {error or 'closed by the broker'}"
    )


def unreadable_answer(address: Address, first: bytes) -> "ConnectionLost | OtherProtocol":
    """Return the error for a response whose first bytes, its length, are not Kafka's.

    The text names the protocol that the listener speaks, if the bytes show it.
    """
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
    """Return the error for a TLS alert about the client's certificate; None for any other error."""
    # OpenSSL's name of the error, such as TLSV13_ALERT_CERTIFICATE_REQUIRED.
    reason = str(getattr(error, "reason", None) or "")
    if "_ALERT_" not in reason or not any(word in reason for word in _OF_CERTIFICATES):
        return None
    said = _words(reason.partition("_ALERT_")[2])
    return CertificateRefused(
        f"cannot connect to {address}: the broker refuses the client's certificate: {said}"
    )


def _words(reason: str) -> str:
    return reason.replace("_", " ").lower()


class Reply(Protocol):
    """A response that is awaited."""

    async def wait(self, seconds: float) -> memoryview:
        """Return the response frame without its length prefix; the caller owns the buffer.

        TimedOut also closes the connection, as responses come in order. Raises ConnectionLost.
        """


class Link(Protocol):
    """A connection to a broker; requests may be pipelined."""

    versions: dict[int, tuple[int, int]]
    """The broker's version range by API key; empty until ApiVersions was answered."""

    @property
    def address(self) -> Address: ...

    @property
    def closed(self) -> bool: ...

    def next_correlation_id(self) -> int:
        """Return the correlation id of the next request."""

    def send(self, frame: Sequence[Buffer], *, answered: bool = True) -> Reply:
        """Send a whole request frame.

        Raises ConnectionLost. `answered` False: no response will come.
        """

    def close(self) -> None: ...

    def retire(self) -> None:
        """Close the connection once all outstanding responses have arrived."""


class Transport(Protocol):
    """Opens connections, sleeps and reads the clock."""

    async def connect(self, address: Address, seconds: float) -> Link:
        """Open a connection. Raises CannotConnect."""

    async def sleep(self, seconds: float) -> None: ...

    def now(self) -> float:
        """Return the seconds of a monotonic clock."""


def parse_bootstrap(text: str, default_port: int = 9092) -> list[Address]:
    """Parse a bootstrap list `host:port,host:port`, or the single `unix:PATH`.

    ValueError names the invalid address.
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
