"""The body of a batched send: messages one after another, each with what is its own.

    total size, i32 | magic, i32 0 | CRC, i32 0 | flag, i32 | body length, i32 | body |
    properties length, i16 | properties

Topic, queue, times and hosts are those of the request.
"""

import struct
from typing import NamedTuple

from headrace.model.errors import Malformed

_HEAD = struct.Struct(">iiiii")
_SIZE_I16 = struct.Struct(">h")
_OVERHEAD_BYTES = _HEAD.size + _SIZE_I16.size
MESSAGES_MAX = 65536
"""Messages of one batch at most; each is an entry in the answer's message ids."""


class BatchedMessage(NamedTuple):
    """A message of a batch."""

    flag: int
    body: bytes
    properties: bytes


def decode_batch(data: bytes | memoryview) -> list[BatchedMessage]:
    """Decode the messages of a batch, at least one. Raises Malformed."""
    view = memoryview(data)
    found: list[BatchedMessage] = []
    at, end = 0, len(view)
    while at < end:
        if len(found) >= MESSAGES_MAX:
            raise Malformed(f"a batch of more than {MESSAGES_MAX} messages")
        if end - at < _OVERHEAD_BYTES:
            raise Malformed(f"{end - at} bytes behind the last message of a batch")
        total, _, _, flag, body_size = _HEAD.unpack_from(view, at)
        body_at = at + _HEAD.size
        if not 0 <= body_size <= end - at - _OVERHEAD_BYTES:
            raise Malformed(f"a message of {body_size} bytes in a batch of {end}")
        properties_at = body_at + body_size + _SIZE_I16.size
        (size,) = _SIZE_I16.unpack_from(view, body_at + body_size)
        after = properties_at + size
        if size < 0 or after > end or after - at != total:
            raise Malformed(f"a batched message of {total} bytes, with {size} of properties")
        found.append(
            BatchedMessage(
                flag,
                bytes(view[body_at : body_at + body_size]),
                bytes(view[properties_at:after]),
            )
        )
        at = after
    if not found:
        raise Malformed("a batch without a message")
    return found


def encode_batch(messages: list[BatchedMessage]) -> bytes:
    """Encode a batch. ValueError: properties of more than 32,767 bytes."""
    parts: list[bytes] = []
    for flag, body, properties in messages:
        total = _OVERHEAD_BYTES + len(body) + len(properties)
        try:
            size = _SIZE_I16.pack(len(properties))
        except struct.error:
            raise ValueError(f"properties of {len(properties)} bytes") from None
        parts += (_HEAD.pack(total, 0, 0, flag, len(body)), body, size, properties)
    return b"".join(parts)
