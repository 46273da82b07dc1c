"""Frames of the Kafka protocol: a length of 4 bytes, a header, a body.

    request   length int32 | API key int16 | version int16 | correlation id int32
              | client id nullable string | tags (flexible versions) | body
    response  length int32 | correlation id int32 | tags (flexible versions) | body

On the way in the connection removes the length; encoded messages include it.
"""

import struct
from typing import NamedTuple

from headrace.model.errors import Malformed
from headrace.wire.kafka.api import (
    FLEXIBLE_FROM,
    request_header_version,
    response_header_version,
)
from headrace.wire.kafka.reader import CompactReader

LENGTH = struct.Struct(">i")
LENGTH_BYTES = 4
_HEADER = struct.Struct(">hhih")
_HEADER_BYTES = 10
_RESPONSE = struct.Struct(">ii")
_RESPONSE_TAGGED = struct.Struct(">iib")
_NEVER = 1 << 16
_flexible_from = FLEXIBLE_FROM.get
_unpack = _HEADER.unpack_from
_new = tuple.__new__


class RequestHeader(NamedTuple):
    """A request header; `body` is the position of the request's body in the frame."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    body: int


def parse_request(frame: memoryview) -> RequestHeader:
    """Parse the header of a request frame (without length). Raises Malformed.

    For an unknown key or version `body` is a guess, as the header's format depends on them.
    ApiVersions is answered even then (KIP-511).
    """
    try:
        key, version, correlation_id, size = _unpack(frame)
    except struct.error:
        raise Malformed(f"{len(frame)} bytes are no request header") from None
    body = _HEADER_BYTES
    client_id = None
    if size >= 0:
        body += size
        if body > len(frame):
            raise Malformed(f"a client id of {size} bytes in a frame of {len(frame)}")
        try:
            client_id = str(frame[_HEADER_BYTES:body], "utf-8")
        except UnicodeDecodeError:
            raise Malformed("the client id is no UTF-8") from None
    elif size != -1:
        raise Malformed(f"a client id of {size} bytes")
    if version >= _flexible_from(key, _NEVER):
        if body < len(frame) and frame[body] == 0:
            body += 1
        else:
            reader = CompactReader(frame, body)
            reader.skip_tags()
            body = reader.at
    return _new(RequestHeader, (key, version, correlation_id, client_id, body))


def response_head(api_key: int, version: int, correlation_id: int, body_bytes: int) -> bytes:
    """Encode length and header of a response whose body has `body_bytes` bytes."""
    if response_header_version(api_key, version):
        return _RESPONSE_TAGGED.pack(body_bytes + 5, correlation_id, 0)
    return _RESPONSE.pack(body_bytes + 4, correlation_id)


def request_head(
    api_key: int, version: int, correlation_id: int, client_id: str | None, body_bytes: int
) -> bytes:
    """Encode length and header of a request whose body has `body_bytes` bytes."""
    data = b"" if client_id is None else client_id.encode()
    size = -1 if client_id is None else len(data)
    tags = b"\x00" if request_header_version(api_key, version) == 2 else b""
    length = _HEADER_BYTES + len(data) + len(tags) + body_bytes
    head = _HEADER.pack(api_key, version, correlation_id, size)
    return b"".join((LENGTH.pack(length), head, data, tags))


def parse_response(frame: memoryview, api_key: int, version: int) -> tuple[int, int]:
    """Parse a response frame (without length): return its correlation id and the body's
    position."""
    if len(frame) < LENGTH_BYTES:
        raise Malformed(f"{len(frame)} bytes are no response header")
    (correlation_id,) = LENGTH.unpack_from(frame)
    if not response_header_version(api_key, version):
        return correlation_id, LENGTH_BYTES
    reader = CompactReader(frame, LENGTH_BYTES)
    reader.skip_tags()
    return correlation_id, reader.at
