"""Hashes of routing keys, header values and names: the same on all brokers and in all versions."""

from collections.abc import Sequence
from hashlib import blake2b

from headrace.queues.field_values import comparable

HASH_BITS = 64


def hash_of_keys(routing_keys: Sequence[str]) -> int:
    """Return a hash of 64 bits of routing keys in their order."""
    return _hash("\0".join(routing_keys).encode("utf-8", "surrogateescape"))


def hash_of_value(value: object) -> int:
    """Return a hash of 64 bits of a decoded header or property, None for a missing one.

    Integers of all widths have one hash, and so have all types of strings.
    """
    # Not `repr`: which characters it escapes depends on the version of Python.
    return _hash(ascii(comparable(value)).encode())


def _hash(content: bytes) -> int:
    return int.from_bytes(blake2b(content, digest_size=HASH_BITS // 8).digest(), "little")
