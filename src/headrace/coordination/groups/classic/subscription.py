"""The consumer's own bytes inside a JoinGroup: which topics a member subscribes to.

ConsumerProtocolSubscription: version int16, topics array of string, and more that later versions
append; every version begins alike, so one reader serves all.
"""

import struct

CONSUMER_PROTOCOL = "consumer"
"""The protocol type of consumers (Connect and others use their own, opaque to the broker)."""

_HEAD = struct.Struct(">hi")
_LENGTH = struct.Struct(">h")


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """Return the topics named in a member's subscription; None where the bytes are none."""
    topics: set[str] = set()
    try:
        version, count = _HEAD.unpack_from(metadata)
        if version < 0 or count < 0 or count * 2 > len(metadata):
            return None
        at = _HEAD.size
        for _ in range(count):
            (size,) = _LENGTH.unpack_from(metadata, at)
            at += _LENGTH.size
            if size < 0 or at + size > len(metadata):
                return None
            topics.add(metadata[at : at + size].decode())
            at += size
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(topics)
