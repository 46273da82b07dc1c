"""The transport on plain sockets, without an event loop.

Its coroutines never suspend. Connections have no locks: each thread needs its own transport.
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
    """A response that is read from the socket when it is awaited, after the earlier ones."""

    __slots__ = ("_frame", "_link")

    def __init__(self, link: "BlockingLink") -> None:
        self._link = link
        self._frame: memoryview | None = None

    def arrived(self, frame: memoryview) -> None:
        """Store the response frame that the connection has read."""
        self._frame = frame

    async def wait(self, seconds: float) -> memoryview:
        """Return the response frame, without its length prefix.

        Raises TimedOut or ConnectionLost.
        """
        deadline = time.monotonic() + seconds
        while self._frame is None:
            self._link.read_one(deadline)
        return self._frame


class BlockingLink:
    """A connection to a broker on a plain socket."""

    def __init__(self, address: Address, connection: socket.socket) -> None:
        self.versions: dict[int, tuple[int, int]] = {}
        self._address = address
        self._socket: socket.socket | None = connection
        self._waiting: deque[BlockingReply] = deque()
        self._correlation_id = 0
        self._retiring = False

    @property
    def address(self) -> Address:
        """The broker's address."""
        return self._address

    @property
    def closed(self) -> bool:
        """Whether the connection is closed, so no request can be sent."""
        return self._socket is None

    def next_correlation_id(self) -> int:
        """Return the correlation id of the next request."""
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        return self._correlation_id

    def send(self, frame: Sequence[Buffer], *, answered: bool = True) -> BlockingReply:
        """Send a whole request frame.

        Raises ConnectionLost. `answered` False: no response will come.
        """
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
        """Read the next response and give it to the oldest unanswered request."""
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
                # Interrupted within a response: the next bytes would not be the start of one.
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
        """Close the connection; outstanding responses are lost."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def retire(self) -> None:
        """Close the connection once no response is outstanding."""
        self._retiring = True
        if not self._waiting:
            self.close()


class BlockingTransport:
    """Opens connections on plain sockets, with TLS if it has a context."""

    def __init__(self, tls: "SSLContext | None" = None) -> None:
        """Create a transport. `tls` encrypts connections and verifies brokers; None: plain text."""
        self._tls = tls

    async def connect(self, address: Address, seconds: float) -> BlockingLink:
        """Open a connection. Raises CannotConnect."""
        return BlockingLink(address, open_socket(address, seconds, self._tls))

    async def sleep(self, seconds: float) -> None:
        """Block the thread for `seconds`."""
        time.sleep(seconds)  # noqa: ASYNC251 - this transport's coroutines are meant to block

    def now(self) -> float:
        """Return the seconds of a monotonic clock."""
        return time.monotonic()


def open_socket(address: Address, seconds: float, tls: "SSLContext | None" = None) -> socket.socket:
    """Open a connected socket with TCP_NODELAY; CannotConnect says why it failed.

    With `tls`, the broker's certificate is verified against the host of `address`. A Unix socket
    needs no TLS.
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
