"""Frames: kind (1 byte), channel (2), size (4), payload, and a byte that ends them.

AMQP 0-9-1, section 4.2.3. A protocol header of eight bytes comes before the first one.
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
"""What a frame has besides its payload."""
FRAME_BYTES_MIN = 4096
"""The least that a client may negotiate, and what may be sent before anything is negotiated."""
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
    """A frame announces more than was negotiated; nothing behind it can be read."""

    def __init__(self, head: Frame, payload_bytes: int, payload_bytes_max: int) -> None:
        """`head`: the frame without its payload."""
        super().__init__(f"a frame of {payload_bytes} bytes, at most {payload_bytes_max} may be")
        self.frame = head
        self.payload_bytes = payload_bytes
        self.payload_bytes_max = payload_bytes_max


class WrongFrameEnd(Malformed):
    """A frame does not end with FRAME_END; nothing behind it can be read."""

    def __init__(self, frame: Frame, end_marker: int) -> None:
        super().__init__(f"a frame ends with {end_marker} instead of {FRAME_END}")
        self.frame = frame
        self.end_marker = end_marker


def frame_bytes(data: bytes, at: int, end: int, frame_bytes_max: int) -> int:
    """Return the bytes of the frame at `at`, 0 while its head is not wholly there.

    FrameTooLarge as soon as the head tells of it. As RabbitMQ does, a payload may be as large as a
    frame: clients are known that forget the overhead.
    """
    if end - at < FRAME_HEADER_BYTES:
        return 0
    kind, channel, size = _unpack_head(data, at)
    if size > frame_bytes_max:
        head = Frame(kind, channel, b"")
        raise FrameTooLarge(head, size, frame_bytes_max - FRAME_OVERHEAD_BYTES)
    return int(size) + FRAME_OVERHEAD_BYTES


def frame_at(data: bytes, at: int) -> Frame:
    """Return the frame at `at`, which is wholly there; WrongFrameEnd."""
    kind, channel, size = _unpack_head(data, at)
    payload_at = at + FRAME_HEADER_BYTES
    frame = Frame(kind, channel, bytes(data[payload_at : payload_at + size]))
    if data[payload_at + size] != FRAME_END:
        raise WrongFrameEnd(frame, data[payload_at + size])
    return frame


def walk_frames(data: bytes, frame_bytes_max: int, at: int = 0) -> Iterator[Frame]:
    """Yield the frames that are wholly in `data`; FrameTooLarge, WrongFrameEnd."""
    end = len(data)
    while 0 < (size := frame_bytes(data, at, end, frame_bytes_max)) <= end - at:
        yield frame_at(data, at)
        at += size


def encode_frame(kind: int, channel: int, payload: bytes) -> bytes:
    """Return a frame of `payload`, which must fit."""
    return b"".join((_pack_head(kind, channel, len(payload)), payload, _END))
