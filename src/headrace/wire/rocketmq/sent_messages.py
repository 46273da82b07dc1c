"""Messages as they are sent, and the batch of records that stores them.

A body that a client compressed is decompressed: Kafka's clients and Spark would read zlib
otherwise. What it may grow to is bounded before it is done.
"""

import zlib
from collections.abc import Sequence
from typing import NamedTuple

from headrace.model.errors import HeadraceError
from headrace.record.compression import Codec, CorruptBatch, UnfoldsTooLarge, decompress
from headrace.record.record import sized
from headrace.record.record_parts import Parts, build_of_parts
from headrace.wire.rocketmq.properties import KEYS, PROPERTIES_BYTES_MAX, find_property
from headrace.wire.rocketmq.record_header import MessageFacts, encode_facts, encoded_header
from headrace.wire.rocketmq.stored_messages import SystemFlag

BODY_BYTES_MAX = 4 * 1024 * 1024
"""The largest body, also decompressed: RocketMQ's default (`maxMessageSize`)."""
_CODECS = {1: Codec.LZ4, 2: Codec.ZSTD}
"""Kinds of compression by their number in the system flag; 0 and 3 are zlib."""
_ZLIB = (0, 3)
_TYPE_SHIFT = 8


class MessageIllegal(HeadraceError):
    """A message that cannot be stored: RocketMQ's MESSAGE_ILLEGAL, 13, with this text."""


class SentMessage(NamedTuple):
    """A message to be stored: its body, decompressed, and the rest."""

    body: bytes
    facts: MessageFacts


def check_sent(body: bytes | memoryview, properties: bytes) -> None:
    """Raise MessageIllegal if a body is empty or too large, or properties are too large."""
    if not body:
        raise MessageIllegal("the message body is empty")
    if len(body) > BODY_BYTES_MAX:
        raise MessageIllegal(f"the message body has {len(body)} bytes, max {BODY_BYTES_MAX}")
    if len(properties) > PROPERTIES_BYTES_MAX:
        raise MessageIllegal(
            f"the message properties have {len(properties)} bytes, max {PROPERTIES_BYTES_MAX}"
        )


def plain_body(body: bytes | memoryview, system_flag: int) -> bytes:
    """Return a body decompressed as its system flag says. Raises MessageIllegal."""
    if not system_flag & SystemFlag.COMPRESSED:
        return bytes(body)
    kind = (system_flag & SystemFlag.COMPRESSION_TYPE) >> _TYPE_SHIFT
    if kind in _ZLIB:
        return _inflated(body)
    codec = _CODECS.get(kind)
    if codec is None:
        raise MessageIllegal(f"the message body has unknown compression {kind}")
    try:
        return bytes(decompress(codec, body, BODY_BYTES_MAX))
    except UnfoldsTooLarge:
        raise MessageIllegal(f"the message body has more than {BODY_BYTES_MAX} bytes") from None
    except CorruptBatch as error:
        raise MessageIllegal(f"the message body does not decompress: {error.message}") from None


def _inflated(body: bytes | memoryview) -> bytes:
    inflater = zlib.decompressobj()
    try:
        plain = inflater.decompress(body, BODY_BYTES_MAX + 1)
    except zlib.error as error:
        raise MessageIllegal(f"the message body does not decompress: {error}") from None
    if len(plain) > BODY_BYTES_MAX:
        raise MessageIllegal(f"the message body has more than {BODY_BYTES_MAX} bytes")
    if not inflater.eof:
        raise MessageIllegal("the message body does not decompress: it ends early")
    return plain


def encode_batch_of(messages: Sequence[SentMessage], now_ms: int) -> bytes:
    """Build one record batch of messages, at least one, all with the time `now_ms`."""
    return build_of_parts([parts_of(message) for message in messages], now_ms)


def parts_of(message: SentMessage) -> Parts:
    """Return a message's record but for its offset."""
    key = find_property(message.facts.properties, KEYS)
    return (
        sized(key or None),
        message.body,
        encoded_header(encode_facts(message.facts)),
    )
