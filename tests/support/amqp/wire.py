"""A client of AMQP on a socket that does no more than it must: many messages in one write."""

import socket
from typing import Any

from headrace.wire.amqp.control_methods import (
    ChannelOpen,
    ConnectionClose,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
)
from headrace.wire.amqp.field_table import FieldTable
from headrace.wire.amqp.frames import (
    FRAME_BODY,
    FRAME_METHOD,
    FRAME_OVERHEAD_BYTES,
    PROTOCOL_HEADER,
    Frame,
    walk_frames,
)
from headrace.wire.amqp.methods import Method, decode_method, encode_method
from headrace.wire.amqp.model_methods import BasicDeliver, BasicGetOk

FRAME_BYTES_MAX = 131_072
SECONDS_MAX = 20.0
NO_PROPERTIES: FieldTable = {}


class Gone(OSError):
    """The broker has ended the connection."""


class AmqpWire:
    """One connection with channel 1 open, for one thread. OSError where it ends or is silent."""

    def __init__(
        self,
        port: int,
        seconds_max: float = SECONDS_MAX,
        host: str = "127.0.0.1",
        login: tuple[str, str] = ("guest", "guest"),
        properties: FieldTable = NO_PROPERTIES,
    ) -> None:
        """`properties` are the client's, as its capabilities."""
        self._login, self._client = login, properties
        self._socket = socket.create_connection((host, port), seconds_max)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._left = b""
        self._frames: list[Frame] = []
        self._carries: Any = None
        """A method whose body has not come yet."""
        try:
            self._open()
        except OSError:
            self._socket.close()
            raise

    def _open(self) -> None:
        self.send(PROTOCOL_HEADER)
        self.method()
        response = "\0".join(("", *self._login)).encode()
        self.send(encode_method(0, ConnectionStartOk(self._client, "PLAIN", response, "C")))
        self.method()
        tuned = encode_method(0, ConnectionTuneOk(2047, FRAME_BYTES_MAX, 0))
        self.send(tuned + encode_method(0, ConnectionOpen("/")))
        self.method()
        self.ask(ChannelOpen())

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self._socket.sendall(data)

    def ask(self, method: Method) -> Any:
        """Send a method on channel 1; returns its answer."""
        self.send(encode_method(1, method))
        return self.method()

    def method(self) -> Any:
        """Return the next method, whatever is told with it passed over."""
        while True:
            frame = self._frame()
            if frame.kind == FRAME_METHOD:
                return decode_method(frame.payload)

    def received(self) -> tuple[Any, bytes]:
        """Return the next method, with the body that belongs to it: one frame of at least a byte.

        Gone: the broker says that it closes. TimeoutError: no more has come; ask again.
        """
        while True:
            frame = self._frame()
            if frame.kind == FRAME_BODY:
                return self._carries, bytes(frame.payload)
            if frame.kind == FRAME_METHOD:
                found = decode_method(frame.payload)
                if isinstance(found, ConnectionClose):
                    raise Gone(found.reply_text)
                if not isinstance(found, BasicDeliver | BasicGetOk):
                    return found, b""
                self._carries = found

    @property
    def has_more(self) -> bool:
        """Whether something has come that was not looked at yet."""
        return bool(self._frames)

    def timeout(self, seconds: float) -> None:
        """Wait no longer for the next bytes: TimeoutError."""
        self._socket.settimeout(seconds)

    def close(self) -> None:
        """End the connection without a word."""
        self._socket.close()

    def _frame(self) -> Frame:
        while not self._frames:
            data = self._socket.recv(1 << 18)
            if not data:
                raise Gone("the broker has closed the connection")
            self._left += data
            self._frames = list(walk_frames(self._left, FRAME_BYTES_MAX))
            taken = sum(len(f.payload) + FRAME_OVERHEAD_BYTES for f in self._frames)
            self._left = self._left[taken:]
            self._frames.reverse()
        return self._frames.pop()
