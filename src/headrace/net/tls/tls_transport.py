"""`TlsTransport`: encrypts what a Connection sends."""

import logging
import ssl
from asyncio import Transport
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from headrace.net.limits import ENCRYPT_BYTES
from headrace.net.tls.tls_failures import describe
from headrace.net.tls.tls_listener_port import CertificatePeer
from headrace.ports.disk import Buffer

if TYPE_CHECKING:
    from headrace.net.connection_places import Place

log = logging.getLogger(__name__)


class Decryption(Protocol):
    """The receiving half of a TLS connection. Implemented by `tls.TlsConnection`."""

    tls: ssl.SSLObject | None
    outgoing: ssl.MemoryBIO
    place: "Place | None"
    paused: bool

    def deliver_soon(self) -> None:
        """Deliver held bytes in a later turn of the loop."""


class TlsTransport(Transport):
    """The transport that a Connection over TLS uses."""

    def __init__(self, below: Decryption, socket: Transport, peer: CertificatePeer) -> None:
        super().__init__()
        self._below = below
        self._socket = socket
        self._peer = peer
        self._closing = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401
        """Return a property of the connection; `principal`: the identity in the certificate."""
        if name == "principal":
            return self._peer.principal
        if name == "place":
            return self._below.place
        if name == "sslcontext":
            return None if self._below.tls is None else self._below.tls.context
        if name == "ssl_object":
            return self._below.tls
        return self._socket.get_extra_info(name, default)

    def write(self, data: Buffer) -> None:
        """Encrypt `data` and send it; the caller may change it afterwards."""
        tls, outgoing = self._below.tls, self._below.outgoing
        if tls is None or self._closing or self._socket.is_closing():
            return
        try:
            if len(data) <= ENCRYPT_BYTES:
                tls.write(data)
                self._socket.write(outgoing.read())
                return
            view = memoryview(data)
            for at in range(0, len(view), ENCRYPT_BYTES):
                tls.write(view[at : at + ENCRYPT_BYTES])
                self._socket.write(outgoing.read())
        except ssl.SSLError as problem:
            log.warning("dropping a TLS connection: %s", describe(problem))
            self._socket.abort()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        """Encrypt several buffers, short ones together, as each TLS record has an overhead."""
        gathered: list[Buffer] = []
        size = 0
        for data in list_of_data:
            if size + len(data) > ENCRYPT_BYTES and gathered:
                self.write(gathered[0] if len(gathered) == 1 else b"".join(gathered))
                gathered, size = [], 0
            gathered.append(data)
            size += len(data)
        if gathered:
            self.write(gathered[0] if len(gathered) == 1 else b"".join(gathered))

    def close(self) -> None:
        """Send a TLS close notification and everything unsent, then close."""
        tls = self._below.tls
        if self._closing or tls is None:
            return
        self._closing = True
        with suppress(ssl.SSLError, OSError):  # the client's own notification is not awaited
            tls.unwrap()
        farewell = self._below.outgoing.read()
        if farewell and not self._socket.is_closing():
            self._socket.write(farewell)
        self._socket.close()

    def abort(self) -> None:
        """Close at once, dropping unsent bytes."""
        self._closing = True
        self._socket.abort()

    def is_closing(self) -> bool:
        """Return whether the transport is closing."""
        return self._closing or self._socket.is_closing()

    def pause_reading(self) -> None:
        """Stop delivering received bytes."""
        self._below.paused = True
        if not self._socket.is_closing():
            self._socket.pause_reading()

    def resume_reading(self) -> None:
        """Deliver held and new bytes again."""
        self._below.paused = False
        if not self._socket.is_closing():
            self._socket.resume_reading()
            self._below.deliver_soon()

    def is_reading(self) -> bool:
        """Return whether received bytes are delivered."""
        return not self._below.paused and not self.is_closing()

    def get_write_buffer_size(self) -> int:
        """Return the number of bytes that the socket has not accepted yet."""
        return self._socket.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the limits of the socket's buffer for `pause_writing` and `resume_writing`."""
        self._socket.set_write_buffer_limits(high=high, low=low)

    def can_write_eof(self) -> bool:
        """Return False: TLS connections are not half-closed here."""
        return False
