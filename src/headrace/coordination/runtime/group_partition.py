"""Which partition of `__consumer_offsets` a group lives in."""

from functools import lru_cache

_REMEMBERED_CHARS_MAX = 256
"""Hashes of longer names are not remembered: the names are the client's to choose."""


def java_string_hash(text: str) -> int:
    """Return Java's String.hashCode: over UTF-16 units, in 32 bits with sign."""
    if text.isascii():
        units: tuple[int, ...] | bytes = text.encode("ascii")
    else:
        raw = text.encode("utf-16-be", "surrogatepass")
        units = tuple(raw[at] << 8 | raw[at + 1] for at in range(0, len(raw), 2))
    value = 0
    for unit in units:
        value = (value * 31 + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def partition_for(key: str, partitions: int) -> int:
    """Return the partition of an internal topic that coordinates `key` (Kafka's abs of the hash).

    The one value without an absolute value in 32 bits, -2^31, counts as 0.
    """
    value = _remembered(key) if len(key) <= _REMEMBERED_CHARS_MAX else java_string_hash(key)
    return 0 if value == -(1 << 31) else abs(value) % partitions


@lru_cache(maxsize=4096)
def _remembered(key: str) -> int:
    return java_string_hash(key)
