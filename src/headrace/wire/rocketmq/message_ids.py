"""Physical offsets and the message ids made of them.

RocketMQ's physical offset is a position in the commit log of one broker. Three requests name a
message by it alone (33, 36, 37: view, send back, end a transaction), so it must name the partition:

    63        40                        0
    +---------+-------------------------+
    | number  | offset in the partition |      number: 23 bits, offset: 40 bits
    +---------+-------------------------+

The number of a partition is unique in the cluster and is never given again (ADR 74). The id that a
producer gets is the upper-case hex of the storing host and the physical offset.
"""

import ipaddress
import struct
from typing import NamedTuple

from headrace.model.errors import Malformed

OFFSET_BITS = 40
PARTITION_NUMBER_MAX = (1 << 23) - 1
OFFSET_MAX = (1 << OFFSET_BITS) - 1
HOST_V4_BYTES = 8
HOST_V6_BYTES = 20
_PORT = struct.Struct(">i")
_PHYSICAL = struct.Struct(">q")


class PlaceInCluster(NamedTuple):
    """A record's place: the cluster-wide number of its partition, and its offset there."""

    partition_number: int
    offset: int


def physical_offset(place: PlaceInCluster) -> int:
    """Return the physical offset of a place. ValueError: a number is out of range."""
    number, offset = place
    if not (0 <= number <= PARTITION_NUMBER_MAX and 0 <= offset <= OFFSET_MAX):
        raise ValueError(f"partition number {number}, offset {offset}: no physical offset")
    return number << OFFSET_BITS | offset


def place_of(physical: int) -> PlaceInCluster:
    """Return the place that a physical offset names. Malformed: it is negative."""
    if physical < 0:
        raise Malformed(f"physical offset {physical} is negative")
    return PlaceInCluster(physical >> OFFSET_BITS, physical & OFFSET_MAX)


def host_bytes(address: str, port: int) -> bytes:
    """Encode an IP address and a port: 8 bytes, or 20 for IPv6. ValueError: no address."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return (mapped or parsed).packed + _PORT.pack(port)


def message_id(store_host: bytes, physical: int) -> str:
    """Return the id of a stored message: 32 digits, or 56 with an IPv6 host."""
    return (store_host + _PHYSICAL.pack(physical)).hex().upper()


def physical_offset_of(text: str) -> int:
    """Return the physical offset in a message id. Malformed: the text is no such id."""
    if len(text) not in (2 * (HOST_V4_BYTES + 8), 2 * (HOST_V6_BYTES + 8)):
        raise Malformed(f"a message id of {len(text)} characters")
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        raw = b""
    if len(raw) * 2 != len(text):  # fromhex skips spaces
        raise Malformed("a message id is not hex")
    return int(_PHYSICAL.unpack_from(raw, len(raw) - 8)[0])
