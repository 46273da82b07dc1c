"""The properties of a message: `name \\x01 value \\x02 …`, UTF-8.

They are stored and delivered as the sender wrote them. Decoding all of them would cost more than
all other handling of a message, so readers find the one that they need.

RocketMQ's rules: an entry without \\x01 does not count, the first \\x01 ends the name, and the last
of equal names wins. The last \\x02 may be missing (4.x clients leave it out).
"""

from collections.abc import Mapping

from headrace.wire.rocketmq.commands import utf8

PROPERTIES_BYTES_MAX = 32767
"""The largest size of a message's properties: their length is an i16 (RocketMQ answers 13)."""
NAME_END = b"\x01"
ENTRY_END = b"\x02"
TAGS = b"TAGS"
KEYS = b"KEYS"
UNIQUE_KEY = b"UNIQ_KEY"
"""The client's id of a message; opaque text, which differs between clients."""


def find_property(properties: bytes, name: bytes) -> bytes | None:
    """Return the value of a property, or None without one of this name."""
    at = properties.rfind(ENTRY_END + name + NAME_END)
    if at >= 0:
        at += len(name) + 2
    elif properties.startswith(name + NAME_END):
        at = len(name) + 1
    else:
        return None
    end = properties.find(ENTRY_END, at)
    return properties[at:] if end < 0 else properties[at:end]


def decode_properties(properties: bytes) -> dict[str, str]:
    """Return all properties; bytes that are no UTF-8 become U+FFFD, as in Java."""
    found: dict[str, str] = {}
    for entry in properties.split(ENTRY_END):
        name, separator, value = entry.partition(NAME_END)
        if separator:
            found[name.decode("utf-8", "replace")] = value.decode("utf-8", "replace")
    return found


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """Encode properties, each with its final \\x02. ValueError: a name or value has \\x01 or
    \\x02."""
    parts: list[bytes] = []
    for name, value in properties.items():
        if not {"\x01", "\x02"}.isdisjoint(name + value):
            raise ValueError(f"property {name!r} has a separator in it")
        parts += (utf8(name), NAME_END, utf8(value), ENTRY_END)
    return b"".join(parts)


def closed(properties: bytes) -> bytes:
    """Return properties to which more can be appended: ending with \\x02, or empty."""
    if not properties or properties.endswith(ENTRY_END):
        return properties
    return properties + ENTRY_END


def without_property(properties: bytes, name: bytes) -> bytes:
    """Return properties without those of one name; all others stay as they are."""
    if find_property(properties, name) is None:
        return properties
    prefix = name + NAME_END
    entries = properties.split(ENTRY_END)
    return ENTRY_END.join(entry for entry in entries if not entry.startswith(prefix))


def with_property(properties: bytes, name: bytes, value: bytes) -> bytes:
    """Return properties with one value for a name, behind all others, which stay as they are."""
    others = closed(without_property(properties, name))
    return b"".join((others, name, NAME_END, value, ENTRY_END))


def with_property_if_room(properties: bytes, name: bytes, value: bytes) -> bytes:
    """Return properties with one value for a name; unchanged if they would be too large."""
    more = with_property(properties, name, value)
    return more if len(more) <= PROPERTIES_BYTES_MAX else properties
