"""The transport without an event loop: plain sockets, one thread.

Its coroutines never suspend. A link that is used by one thread only needs no locks; several
threads take a transport each.
"""

import socket
import struct
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.client.transport.port import (
    RESPONSE_BYTES_MAX,
    Address,
    Buffer,
    ClientError,
    ConnectionLost,
    TimedOut,
    Unanswered,
    cannot_connect,
    connection_lost,
    unreadable_answer,
)

if TYPE_CHECKING:
    from ssl import SSLContext

_LENGTH = struct.Struct(">i")
_SEND_SECONDS = 60.0


class BlockingReply:
    """An answer that is read when it is waited for, the earlier ones first."""

    __slots__ = ("_frame", "_link")

    def __init__(self, link: "BlockingLink") -> None:
        self._link = link
        self._frame: memoryview | None = None

    def arrived(self, frame: memoryview) -> None:
        """Take the answer from the link."""
        self._frame = frame

    async def wait(self, seconds: float) -> memoryview:
        """Wait for the response frame, without its length; TimedOut, ConnectionLost."""
        deadline = time.monotonic() + seconds
        while self._frame is None:
            self._link.read_one(deadline)
        return self._frame


class BlockingLink:
    """One socket."""

    def __init__(self, address: Address, connection: socket.socket) -> None:
        self.versions: dict[int, tuple[int, int]] = {}
        self._address = address
        self._socket: socket.socket | None = connection
        self._waiting: deque[BlockingReply] = deque()
        self._correlation_id = 0
        self._retiring = False

    @property
    def address(self) -> Address:
        """The other end."""
        return self._address

    @property
    def closed(self) -> bool:
        """Whether nothing more can be sent."""
        return self._socket is None

    def next_correlation_id(self) -> int:
        """Return the number of the next request."""
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        return self._correlation_id

    def send(self, frame: Sequence[Buffer], *, answered: bool = True) -> BlockingReply:
        """Send a whole request; ConnectionLost."""
        reply = BlockingReply(self)
        if self._socket is None:
            raise ConnectionLost(f"{self._address}: connection lost")
        try:
            self._socket.settimeout(_SEND_SECONDS)
            self._socket.sendall(frame[0] if len(frame) == 1 else b"".join(frame))
        except OSError as error:
            raise self._lost(error) from None
        if answered:
            self._waiting.append(reply)
        return reply

    def read_one(self, deadline: float) -> None:
        """Read the next answer and give it to whom it belongs."""
        if self._socket is None or not self._waiting:
            raise ConnectionLost(f"{self._address}: connection lost")
        head = self._read(4, deadline)
        (size,) = _LENGTH.unpack(head)
        if not 4 <= size <= RESPONSE_BYTES_MAX:
            self.close()
            raise unreadable_answer(self._address, bytes(head))
        frame = self._read(size, deadline)
        self._waiting.popleft().arrived(memoryview(frame))
        if self._retiring:
            self.retire()

    def _read(self, size: int, deadline: float) -> bytearray:
        frame = bytearray(size)
        view, at = memoryview(frame), 0
        while at < size:
            if self._socket is None:
                raise ConnectionLost(f"{self._address}: connection lost")
            left = deadline - time.monotonic()
            try:
                if left <= 0:
                    raise TimeoutError
                self._socket.settimeout(left)
                count = self._socket.recv_into(view[at:])
            except TimeoutError:
                self.close()
                raise TimedOut(f"{self._address}: no answer in time") from None
            except OSError as error:
                raise self._lost(error) from None
            except BaseException:
                # Interrupted amid an answer: what would be read next is not the start of one.
                self.close()
                raise
            if count == 0:
                raise self._lost("closed by the broker")
            at += count
        return frame

    def _lost(self, why: object) -> ClientError:
        self.close()
        return connection_lost(self._address, why)

    def close(self) -> None:
        """End the connection; answers still awaited are lost."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def retire(self) -> None:
        """End the connection once no answer is awaited any more."""
        self._retiring = True
        if not self._waiting:
            self.close()


class BlockingTransport:
    """Opens sockets, with TLS where there is a context for it."""

    def __init__(self, tls: "SSLContext | None" = None) -> None:
        """`tls`: what connections are encrypted and brokers verified by; None: plain text."""
        self._tls = tls

    async def connect(self, address: Address, seconds: float) -> BlockingLink:
        """Open a connection; CannotConnect."""
        return BlockingLink(address, open_socket(address, seconds, self._tls))

    async def sleep(self, seconds: float) -> None:
        """Do nothing for a while."""
        time.sleep(seconds)  # noqa: ASYNC251 - this transport's coroutines are meant to block

    def now(self) -> float:
        """Return the seconds of a clock that never goes back."""
        return time.monotonic()


def open_socket(address: Address, seconds: float, tls: "SSLContext | None" = None) -> socket.socket:
    """Open a connected socket without Nagle's delay; CannotConnect says why there is none.

    With `tls` the other end has shown that it is who `address` says. A Unix socket needs none.
    """
    connection = None
    try:
        if address.local_path is not None:
            from headrace.client.transport.local_socket import open_local_socket

            return open_local_socket(address.local_path, seconds)
        connection = socket.create_connection(address, timeout=seconds)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return (
            connection if tls is None else tls.wrap_socket(connection, server_hostname=address[0])
        )
    except OSError as error:
        if connection is not None:
            connection.close()
        if isinstance(error, TimeoutError):
            raise Unanswered(f"cannot connect to {address}: no answer") from None
        raise cannot_connect(address, error) from None
