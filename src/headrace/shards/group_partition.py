"""`partition_for`: the partition of an internal topic that stores a key's state."""

from functools import lru_cache

_REMEMBERED_CHARS_MAX = 256
"""Length in characters up to which the hash of a key is cached; clients choose the keys."""


def java_string_hash(text: str) -> int:
    """Return Java's String.hashCode: computed over UTF-16 units, a signed 32-bit integer."""
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
    """Return the partition of an internal topic for `key`: abs(hash) % partitions, as in Kafka.

    A hash of -2^31, which has no absolute value in 32 bits, counts as 0.
    """
    value = _remembered(key) if len(key) <= _REMEMBERED_CHARS_MAX else java_string_hash(key)
    return 0 if value == -(1 << 31) else abs(value) % partitions


@lru_cache(maxsize=4096)
def _remembered(key: str) -> int:
    return java_string_hash(key)
