"""A stored message, as pulls deliver it: one after another in the body of a response.

      0 total size, i32           48 born host: IPv4 and port (8 bytes) or IPv6 and port (20)
      4 magic, u32                 . stored at, ms, i64
      8 CRC of the body, i32       . storing host, 8 or 20 bytes
     12 queue id, i32              . reconsume times, i32
     16 flag, i32                  . prepared transaction offset, i64
     20 queue offset, i64          . body length, i32, and body
     28 physical offset, i64       . topic length, u8 (magic v1) or i16 (v2), and topic
     36 system flag, i32           . properties length, i16, and properties
     40 born at, ms, i64

Positions behind the born host depend on its size, which the system flag has. The CRC is CRC-32 of
the body as stored, without its top bit. v2 is for topics of more than 127 bytes.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from headrace.model.errors import Malformed
from headrace.wire.rocketmq.message_ids import HOST_V4_BYTES, HOST_V6_BYTES
from headrace.wire.rocketmq.properties import PROPERTIES_BYTES_MAX

MAGIC_V1 = 0xDAA320A7
MAGIC_V2 = 0xDAA320AB
TOPIC_BYTES_MAX_V1 = 127
TOPIC_BYTES_MAX_V2 = 32767
HEAD = struct.Struct(">iIiiiqqiq")
"""The fields before the born host."""
TAIL = struct.Struct(">iqi")
"""Reconsume times, prepared transaction offset, body length."""
STORED_AT = struct.Struct(">q")
SIZE_I16 = struct.Struct(">h")
CRC_MASK = 0x7FFFFFFF


class SystemFlag:
    """The bits of a message's system flag.

    Plain integers: an `IntFlag` loses bits without a name in a negative number.
    """

    COMPRESSED = 0x1
    MULTIPLE_TAGS = 0x2
    PREPARED = 0x4
    COMMITTED = 0x8
    ROLLED_BACK = 0xC
    BORN_HOST_V6 = 0x10
    STORE_HOST_V6 = 0x20
    COMPRESSION_TYPE = 0x700
    """0 and 3: zlib, 1: LZ4, 2: ZSTD."""


HOSTS_V6 = SystemFlag.BORN_HOST_V6 | SystemFlag.STORE_HOST_V6


class PulledMessage(NamedTuple):
    """A stored message. Times in ms since 1970; hosts as `message_ids.host_bytes`."""

    topic: bytes
    queue_id: int
    queue_offset: int
    physical_offset: int
    body: bytes
    properties: bytes
    born_at_ms: int
    born_host: bytes
    stored_at_ms: int
    store_host: bytes
    flag: int
    system_flag: int
    """The bits of the two hosts follow from the hosts when a message is encoded."""
    reconsume_times: int
    prepared_offset: int


def body_crc(body: bytes | memoryview) -> int:
    """Return the CRC that a stored message has of its body."""
    return zlib.crc32(body) & CRC_MASK


def topic_field(topic: bytes) -> tuple[int, bytes]:
    """Return the magic that fits a topic, and the topic with its length. ValueError: too long."""
    if len(topic) <= TOPIC_BYTES_MAX_V1:
        return MAGIC_V1, len(topic).to_bytes() + topic
    if len(topic) > TOPIC_BYTES_MAX_V2:
        raise ValueError(f"a topic of {len(topic)} bytes")
    return MAGIC_V2, SIZE_I16.pack(len(topic)) + topic


def encode_message(message: PulledMessage) -> bytes:
    """Encode a message. ValueError: properties or topic are too long, or a host has another
    size."""
    magic, topic = topic_field(message.topic)
    if len(message.properties) > PROPERTIES_BYTES_MAX:
        raise ValueError(f"properties of {len(message.properties)} bytes")
    flag = message.system_flag & ~HOSTS_V6
    for host, bit in (
        (message.born_host, SystemFlag.BORN_HOST_V6),
        (message.store_host, SystemFlag.STORE_HOST_V6),
    ):
        if len(host) not in (HOST_V4_BYTES, HOST_V6_BYTES):
            raise ValueError(f"a host of {len(host)} bytes")
        if len(host) == HOST_V6_BYTES:
            flag |= bit
    parts = (
        message.born_host,
        STORED_AT.pack(message.stored_at_ms),
        message.store_host,
        TAIL.pack(message.reconsume_times, message.prepared_offset, len(message.body)),
        message.body,
        topic,
        SIZE_I16.pack(len(message.properties)),
        message.properties,
    )
    head = HEAD.pack(
        HEAD.size + sum(map(len, parts)), magic, body_crc(message.body), message.queue_id,
        message.flag, message.queue_offset, message.physical_offset, flag, message.born_at_ms,
    )  # fmt: skip
    return b"".join((head, *parts))


def decode_messages(data: bytes) -> Iterator[PulledMessage]:
    """Yield the messages in a response's body. Raises Malformed, also for a wrong CRC."""
    at = 0
    while at < len(data):
        message, at = decode_message(data, at)
        yield message


def decode_message(data: bytes, at: int = 0) -> tuple[PulledMessage, int]:
    """Decode the message at `at`; return it and the position behind it. Raises Malformed."""
    if len(data) - at < HEAD.size:
        raise Malformed(f"a message of {len(data) - at} bytes")
    total, magic, crc, queue_id, flag, queue_offset, physical, system_flag, born_at = (
        HEAD.unpack_from(data, at)
    )
    end = at + total
    if magic not in (MAGIC_V1, MAGIC_V2) or not HEAD.size <= total <= len(data) - at:
        raise Malformed(f"a message of {total} bytes with magic {magic:#x}")
    born_size, store_size = _host_sizes(system_flag)
    cut = _Cut(data, at + HEAD.size, end)
    born_host = cut.take(born_size)
    (stored_at,) = STORED_AT.unpack(cut.take(STORED_AT.size))
    store_host = cut.take(store_size)
    reconsume_times, prepared, body_size = TAIL.unpack(cut.take(TAIL.size))
    body = cut.take(body_size)
    topic = cut.take(cut.take(1)[0] if magic == MAGIC_V1 else cut.size())
    properties = cut.take(cut.size())
    if cut.at != end:
        raise Malformed(f"{end - cut.at} bytes behind the properties of a message")
    if crc != body_crc(body):
        raise Malformed("a message's CRC is not that of its body")
    message = PulledMessage(
        topic, queue_id, queue_offset, physical, body, properties, born_at, born_host, stored_at,
        store_host, flag, system_flag, reconsume_times, prepared,
    )  # fmt: skip
    return message, end


def _host_sizes(system_flag: int) -> tuple[int, int]:
    return (
        HOST_V6_BYTES if system_flag & SystemFlag.BORN_HOST_V6 else HOST_V4_BYTES,
        HOST_V6_BYTES if system_flag & SystemFlag.STORE_HOST_V6 else HOST_V4_BYTES,
    )


class _Cut:
    """The bytes of one message, cut from front to back."""

    __slots__ = ("_data", "_end", "at")

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self._data = data
        self.at = at
        self._end = end

    def take(self, size: int) -> bytes:
        """Return the next `size` bytes. Raises Malformed."""
        at = self.at
        if not 0 <= size <= self._end - at:
            raise Malformed(f"{size} bytes of a message are named, {self._end - at} are left")
        self.at = at + size
        return self._data[at : at + size]

    def size(self) -> int:
        """Return the next two bytes, which are a length."""
        return int(SIZE_I16.unpack(self.take(SIZE_I16.size))[0])
