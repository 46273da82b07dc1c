"""RocketMQ remoting frames: length (4 bytes), kind (1), header length (3), header, body.

    0        4      5               8               8+h            4+n
    +--------+------+---------------+---------------+--------------+
    | n, i32 | kind | h, u24        | header        | body         |
    +--------+------+---------------+---------------+--------------+

`n` counts everything behind itself: 4 + h + body. The kind says how the header is serialized: 0 is
JSON, 1 is RocketMQ's binary form (`commands`). Requests and responses have the same form.

A frame is refused as soon as its first eight bytes are here. The original closes the connection in
the same cases, except two, in which it waits for bytes that cannot help: a length below 4, and an
empty header.
"""

import struct
from enum import IntEnum
from typing import NamedTuple

from headrace.model.errors import Malformed

FRAME_LENGTH_MAX = 16 * 1024 * 1024
"""The largest length field, as in RocketMQ (`com.rocketmq.remoting.frameMaxLength`)."""
HEADER_BYTES_MAX = 1024 * 1024
"""The largest header. Properties have at most 32 KiB, six bytes for each of them in JSON."""
LENGTH_BYTES = 4
HEADER_AT = 8
_LENGTH_MIN = HEADER_AT - LENGTH_BYTES

_unpack_head = struct.Struct(">iI").unpack_from
_unpack_length = struct.Struct(">i").unpack_from
_pack_head = struct.Struct(">iI").pack


class Serialization(IntEnum):
    """How a frame's header is serialized: its kind."""

    JSON = 0
    BINARY = 1


class RemotingFrame(NamedTuple):
    """A frame, uncopied: header and body are views of the bytes it was cut from."""

    serialization: Serialization
    header: memoryview
    body: memoryview


def frame_bytes(data: bytes | bytearray | memoryview, at: int, end: int) -> int:
    """Return the size in bytes of the frame at `at`, its length field included; 0 if unknown yet.

    Malformed: the frame is too long, its kind is unknown, or its header is empty or longer than it.
    """
    if end - at < LENGTH_BYTES:
        return 0
    if end - at < HEADER_AT:
        (length,) = _unpack_length(data, at)
        _check_length(length)
        return int(length) + LENGTH_BYTES
    length, kind_and_size = _unpack_head(data, at)
    _check_length(length)
    kind, size = kind_and_size >> 24, kind_and_size & 0xFFFFFF
    if kind > Serialization.BINARY:
        raise Malformed(f"a frame with a header of unknown kind {kind}")
    if not 0 < size <= min(length - _LENGTH_MIN, HEADER_BYTES_MAX):
        raise Malformed(f"a frame of {length} bytes with a header of {size}")
    return int(length) + LENGTH_BYTES


def _check_length(length: int) -> None:
    if not _LENGTH_MIN <= length <= FRAME_LENGTH_MAX:
        raise Malformed(f"a frame of {length} bytes, at most {FRAME_LENGTH_MAX} are allowed")


def frame_at(data: memoryview, at: int) -> RemotingFrame:
    """Return the frame at `at`, which is complete and was accepted by `frame_bytes`."""
    length, kind_and_size = _unpack_head(data, at)
    body_at = at + HEADER_AT + (kind_and_size & 0xFFFFFF)
    return RemotingFrame(
        Serialization(kind_and_size >> 24),
        data[at + HEADER_AT : body_at],
        data[body_at : at + LENGTH_BYTES + length],
    )


def frame_head(serialization: Serialization, header_bytes: int, body_bytes: int) -> bytes:
    """Return the first eight bytes of a frame; ValueError if the frame would be too long."""
    length = _LENGTH_MIN + header_bytes + body_bytes
    if length > FRAME_LENGTH_MAX or not 0 < header_bytes <= HEADER_BYTES_MAX:
        raise ValueError(f"a frame of {length} bytes with a header of {header_bytes}")
    return _pack_head(length, serialization << 24 | header_bytes)
