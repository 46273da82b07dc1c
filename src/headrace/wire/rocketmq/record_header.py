"""The record header that has what RocketMQ knows of a message.

A message is stored as a record: its body is the value, its KEYS property the key. One record header
named `rocketmq` has the rest, in a form from which a stored message is put together without reading
the properties:

    version, u8 1 | flag, i32 | system flag, i32 | born at, ms, i64 | reconsume times, i32 |
    born host, 8 or 20 bytes | properties as sent

The system flag has no bits of compression, for bodies are stored as they are, and says by
BORN_HOST_V6 which size the host has.
"""

import struct
from typing import NamedTuple

from headrace.record.record import short_numbers, write_varint
from headrace.wire.rocketmq.message_ids import HOST_V4_BYTES, HOST_V6_BYTES
from headrace.wire.rocketmq.properties import PROPERTIES_BYTES_MAX
from headrace.wire.rocketmq.stored_messages import SystemFlag

NAME = "rocketmq"
VERSION = 1
FIXED = struct.Struct(">Biiqi")
FACTS_V4 = struct.Struct(f">Biiqi{HOST_V4_BYTES}s")
"""The fixed fields, and a born host of IPv4."""
STORED_FLAGS = ~(
    SystemFlag.COMPRESSED
    | SystemFlag.COMPRESSION_TYPE
    | SystemFlag.BORN_HOST_V6
    | SystemFlag.STORE_HOST_V6
)
"""The bits of a system flag that are stored as sent, also those without a name here."""
READ_FLAGS = STORED_FLAGS | SystemFlag.BORN_HOST_V6
ONE_HEADER = b"\x02" + write_varint(len(NAME)) + NAME.encode()
"""The encoded count of one header, and its name."""


class MessageFacts(NamedTuple):
    """A message's fields apart from body, topic and place."""

    flag: int
    system_flag: int
    born_at_ms: int
    reconsume_times: int
    born_host: bytes
    properties: bytes


def encode_facts(facts: MessageFacts) -> bytes:
    """Encode the header's value."""
    flag = facts.system_flag & STORED_FLAGS
    if len(facts.born_host) == HOST_V6_BYTES:
        flag |= SystemFlag.BORN_HOST_V6
    fixed = FIXED.pack(VERSION, facts.flag, flag, facts.born_at_ms, facts.reconsume_times)
    return fixed + facts.born_host + facts.properties


def decode_facts(value: bytes | None) -> MessageFacts | None:
    """Decode the header's value; None if it has another form.

    Any Kafka producer can write such a header: what no pull could deliver is another form, too.
    """
    if value is None or len(value) < FIXED.size + HOST_V4_BYTES or value[0] != VERSION:
        return None
    _, flag, system_flag, born_at_ms, reconsume_times = FIXED.unpack_from(value)
    v6 = system_flag & SystemFlag.BORN_HOST_V6
    properties_at = FIXED.size + (HOST_V6_BYTES if v6 else HOST_V4_BYTES)
    if not properties_at <= len(value) <= properties_at + PROPERTIES_BYTES_MAX:
        return None
    return MessageFacts(
        flag,
        system_flag & READ_FLAGS,
        born_at_ms,
        reconsume_times,
        value[FIXED.size : properties_at],
        value[properties_at:],
    )


def encoded_header(value: bytes) -> bytes:
    """Return a record's headers, encoded, that are this one header."""
    numbers, size = short_numbers(), len(value)
    return b"".join(
        (ONE_HEADER, numbers[size] if size < len(numbers) else write_varint(size), value)
    )
