"""AMQP frames: type (1 byte), channel (2), size (4), payload, end marker (1).

    0      1         3           7                  7+size   8+size
    +------+---------+-----------+------------------+--------+
    | type | channel | size      | payload          | 0xCE   |
    +------+---------+-----------+------------------+--------+

AMQP 0-9-1, section 4.2.3. A client sends a protocol header of eight bytes before its first frame.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from headrace.model.errors import Malformed

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
FRAME_METHOD = 1
FRAME_HEADER = 2
FRAME_BODY = 3
FRAME_HEARTBEAT = 8
FRAME_END = 0xCE
FRAME_HEADER_BYTES = 7
FRAME_OVERHEAD_BYTES = 8
"""Bytes of a frame apart from its payload."""
FRAME_BYTES_MIN = 4096
"""The smallest negotiable frame size, which also applies before negotiation."""
HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"

_HEAD = struct.Struct(">BHI")
_unpack_head = _HEAD.unpack_from
_pack_head = _HEAD.pack
_END = b"\xce"


class Frame(NamedTuple):
    kind: int
    channel: int
    payload: bytes


class FrameTooLarge(Malformed):
    """A frame larger than negotiated; the connection cannot be read any further."""

    def __init__(self, head: Frame, payload_bytes: int, payload_bytes_max: int) -> None:
        """`head`: the frame without its payload."""
        super().__init__(f"a frame of {payload_bytes} bytes, at most {payload_bytes_max} may be")
        self.frame = head
        self.payload_bytes = payload_bytes
        self.payload_bytes_max = payload_bytes_max


class WrongFrameEnd(Malformed):
    """A frame without its end marker; the connection cannot be read any further."""

    def __init__(self, frame: Frame, end_marker: int) -> None:
        super().__init__(f"a frame ends with {end_marker} instead of {FRAME_END}")
        self.frame = frame
        self.end_marker = end_marker


def frame_bytes(data: bytes, at: int, end: int, frame_bytes_max: int) -> int:
    """Return the size in bytes of the frame at `at`; 0 if its header is incomplete.

    FrameTooLarge: the payload exceeds `frame_bytes_max`. As in RabbitMQ, it may be as large as the
    negotiated frame size: some clients forget the overhead.
    """
    if end - at < FRAME_HEADER_BYTES:
        return 0
    kind, channel, size = _unpack_head(data, at)
    if size > frame_bytes_max:
        head = Frame(kind, channel, b"")
        raise FrameTooLarge(head, size, frame_bytes_max - FRAME_OVERHEAD_BYTES)
    return int(size) + FRAME_OVERHEAD_BYTES


def frame_at(data: bytes, at: int) -> Frame:
    """Return the frame at `at`, which must be complete. Raises WrongFrameEnd."""
    kind, channel, size = _unpack_head(data, at)
    payload_at = at + FRAME_HEADER_BYTES
    frame = Frame(kind, channel, bytes(data[payload_at : payload_at + size]))
    if data[payload_at + size] != FRAME_END:
        raise WrongFrameEnd(frame, data[payload_at + size])
    return frame


def walk_frames(data: bytes, frame_bytes_max: int, at: int = 0) -> Iterator[Frame]:
    """Yield the complete frames in `data`. Raises FrameTooLarge or WrongFrameEnd."""
    end = len(data)
    while 0 < (size := frame_bytes(data, at, end, frame_bytes_max)) <= end - at:
        yield frame_at(data, at)
        at += size


def encode_frame(kind: int, channel: int, payload: bytes) -> bytes:
    """Encode a frame; the payload must fit into the negotiated size."""
    return b"".join((_pack_head(kind, channel, len(payload)), payload, _END))
