"""A session that speaks AMQP 0-9-1's framing and nothing else: it pushes each frame back."""

import struct
from typing import TYPE_CHECKING, Any

from headrace.model.errors import Malformed
from headrace.net.connection import Connection
from headrace.net.pending import Pending
from tests.support.net.connections import Room

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.net.write_pass import WritePass

HEADER = b"AMQP\0\0\x09\x01"
FRAME_END = 0xCE
_HEAD_BYTES = 7
_unpack_size = struct.Struct(">I").unpack_from


def amqp_frame(payload: bytes, *, kind: int = 1, channel: int = 0) -> bytes:
    """Make a frame."""
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + bytes([FRAME_END])


class AmqpEcho:
    """Wants the protocol's header, then frames up to `frame_max`; pushes each one back.

    Commands: `hold` (the frames behind it wait for `stream.go_on`), `end`, `late` (nothing leaves
    before `unwritten` is done).
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.stream = connection.stream(self)
        self.began = False
        self.frame_max = 131_072
        self.taken: list[bytes] = []
        """Payloads, in order."""
        self.calls = 0
        """How often frames were handed over."""
        self.one_at_a_time = False
        """Whether it takes one frame of what it is handed."""
        self.while_room = False
        """Whether it takes frames only while what it pushes has room."""
        self.rooms = 0
        self.on_room: Callable[[], None] = lambda: None
        self.unwritten: Pending | None = None
        self.writes: WritePass | None = None
        self.gone = False

    def frames(self, view: memoryview, at: int, filled: int) -> int:
        """Take what is whole."""
        self.calls += 1
        if not self.began and filled - at >= len(HEADER):
            if view[at : at + len(HEADER)] != HEADER:
                raise Malformed("that is not AMQP 0-9-1")
            self.began = True
            at += len(HEADER)
        while self.began and filled - at >= _HEAD_BYTES and not self.stream.held:
            end = at + self.need(view, at, filled)
            if end > filled or (self.while_room and not self.stream.takes_more()):
                break
            if view[end - 1] != FRAME_END:
                raise Malformed("a frame without its end")
            self._take(bytes(view[at:end]))
            at = end
            if self.one_at_a_time:
                break
        return at

    def need(self, view: memoryview, at: int, filled: int) -> int:
        """Return where the frame at `at` ends, from there."""
        if not self.began:
            return len(HEADER)
        if filled - at < _HEAD_BYTES:
            return _HEAD_BYTES + 1
        need: int = _HEAD_BYTES + _unpack_size(view, at + 3)[0] + 1
        if need > self.frame_max:
            raise Malformed(f"frame of {need} bytes, at most {self.frame_max} were agreed on")
        return need

    def _take(self, frame: bytes) -> None:
        payload = frame[_HEAD_BYTES:-1]
        self.taken.append(payload)
        if payload == b"hold":
            self.stream.hold()
        self.stream.push(frame)
        if payload == b"end":
            self.stream.end()

    def room(self) -> None:
        """Note it, and do what the test wants."""
        self.rooms += 1
        self.on_room()

    def pass_done(self) -> Pending | None:
        """Do the pass's writes, where there are any."""
        if self.writes is not None:
            return self.writes.end()
        unwritten, self.unwritten = self.unwritten, None
        return unwritten

    def closed(self) -> None:
        """Note it."""
        self.gone = True


class AmqpRoom(Room):
    """Connections that speak AMQP's framing, by a clock that the test moves."""

    def __init__(self, **settings: Any) -> None:
        self.echoes: list[AmqpEcho] = []
        super().__init__(**settings)

    def _open(self, connection: Connection) -> AmqpEcho:
        echo = AmqpEcho(connection)
        self.echoes.append(echo)
        connection.authenticated = connection.listener not in self.table.limits.begin_unknown
        return echo
