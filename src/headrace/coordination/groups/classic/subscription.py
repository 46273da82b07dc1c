"""Decode the subscribed topics from the consumer metadata in JoinGroup.

ConsumerProtocolSubscription: version int16, topics array of string, then fields that later versions
append. All versions begin alike, so one decoder serves all.
"""

import struct

CONSUMER_PROTOCOL = "consumer"
"""The protocol type of consumers; others, such as Connect's, are opaque to the broker."""

_HEAD = struct.Struct(">hi")
_LENGTH = struct.Struct(">h")


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """Return the topics in a member's subscription; None if the bytes cannot be decoded."""
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
