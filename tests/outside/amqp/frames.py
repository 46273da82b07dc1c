"""A connection whose every frame is ours to choose: written and read by pamqp, over a socket.

Stock clients never send what a broker must refuse; this one does.
"""

import re
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Self

from pamqp import body, commands, exceptions, frame, header, heartbeat

from tests.outside.amqp.address import PROTOCOL_HEADER, Address

ANSWER_SECONDS_MAX = 20.0
CAPABILITIES = {
    "publisher_confirms": True,
    "consumer_cancel_notify": True,
    "basic.nack": True,
    "connection.blocked": True,
    "authentication_failure_close": True,
}


class Received(NamedTuple):
    """A frame that came."""

    channel: int
    frame: Any

    @property
    def name(self) -> str:
        """A method's name as the specification writes it: `queue.declare-ok`."""
        return method_name(self.frame)


class Ended(Exception):
    """The broker has closed the socket without a word."""


def method_name(method: Any) -> str:
    """The name of a method as the specification writes it: `queue.declare-ok`."""
    words = re.sub("(?<=[a-z])([A-Z])", r"-\1", str(method.name))
    return words.lower()


def method(given: Any, channel: int = 1) -> bytes:
    """One method as bytes."""
    return bytes(frame.marshal(given, channel))


def content(
    publish: Any,
    payload: bytes = b"",
    properties: dict[str, Any] | None = None,
    channel: int = 1,
    frame_bytes: int = 131_072 - 8,
) -> bytes:
    """A publish with its header and its body, in frames of at most `frame_bytes`."""
    head = header.ContentHeader(0, len(payload), commands.Basic.Properties(**(properties or {})))
    parts = [payload[at : at + frame_bytes] for at in range(0, len(payload), frame_bytes)]
    frames = [publish, head, *(body.ContentBody(part) for part in parts)]
    return b"".join(frame.marshal(part, channel) for part in frames)


def raw(kind: int, channel: int, payload: bytes, end: bytes = b"\xce") -> bytes:
    """A frame as it is told, whatever it says."""
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + end


class RawConnection:
    """A socket to a broker; `open` shakes hands as a client that knows all extensions."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._socket = socket.create_connection((address.host, address.port), ANSWER_SECONDS_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._read = b""
        self._refused = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket, with no close of the protocol before."""
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Send bytes. Ended where nobody takes them."""
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise Ended from error

    def receive(self, seconds_max: float = ANSWER_SECONDS_MAX) -> Received:
        """The next frame. TimeoutError; Ended."""
        self._socket.settimeout(seconds_max)
        while True:
            if self._read:
                with suppress(exceptions.UnmarshalingException):
                    size, channel, given = frame.unmarshal(self._read)
                    self._read = self._read[size:]
                    self._refused |= isinstance(given, commands.Connection.Close)
                    return Received(channel, given)
            try:
                data = self._socket.recv(1 << 16)
            except ConnectionError as error:
                raise Ended from error
            if not data:
                raise Ended
            self._read += data

    def receive_method(self, seconds_max: float = ANSWER_SECONDS_MAX) -> Received:
        """The next frame that is not a heartbeat."""
        while True:
            received = self.receive(seconds_max)
            if not isinstance(received.frame, heartbeat.Heartbeat):
                return received

    def start_ok(self, **changed: Any) -> bytes:
        """The answer to Connection.Start."""
        response = f"\0{self.address.user}\0{self.address.password}"
        fields: dict[str, Any] = {
            "client_properties": {"capabilities": dict(CAPABILITIES)},
            "mechanism": "PLAIN",
            "response": response,
            "locale": "en_US",
        }
        return method(commands.Connection.StartOk(**fields | changed), 0)

    def open(self, frame_max: int = 131_072, channel_max: int = 2047, heartbeat: int = 0) -> Self:
        """Shake hands."""
        self.send(PROTOCOL_HEADER)
        self.expect("connection.start")
        self.send(self.start_ok())
        self.expect("connection.tune")
        self.send(method(commands.Connection.TuneOk(channel_max, frame_max, heartbeat), 0))
        self.send(method(commands.Connection.Open(self.address.vhost), 0))
        self.expect("connection.open-ok")
        return self

    def open_channel(self, channel: int = 1) -> None:
        """Open a channel."""
        self.send(method(commands.Channel.Open(), channel))
        self.expect("channel.open-ok")

    def expect_any(self, because: str) -> Received:
        """The next frame, which has to be no refusal. AssertionError."""
        received = self.receive_method()
        refused = received.name in {"connection.close", "channel.close"}
        assert not refused, f"{because}: refused before its end: {received.frame.reply_text}"
        return received

    def say_goodbye(self) -> None:
        """Close as the protocol has it; returns when what was exclusive to it is gone."""
        close = commands.Connection.Close(200, "Goodbye", 0, 0)
        with suppress(Ended, TimeoutError):
            self.send(method(commands.Connection.CloseOk() if self._refused else close, 0))
            while not self._refused and self.receive_method().name not in {
                "connection.close",
                "connection.close-ok",
            }:
                pass
        self.close()

    def expect(self, name: str, seconds_max: float = ANSWER_SECONDS_MAX) -> Received:
        """The next frame, which has to be this method. AssertionError."""
        received = self.receive_method(seconds_max)
        assert received.name == name, f"{name} was expected, and {received} came"
        return received


def bodies(frames: Sequence[Received]) -> bytes:
    """The body in a run of frames."""
    return b"".join(given.frame.value for given in frames if given.name == "content-body")
