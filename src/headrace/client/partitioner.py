"""Which partition a record goes to, as Java's client decides it.

With a key: murmur2 of the key's bytes, so that all clients put a key into the same partition.
Without: the same partition for a whole batch, then another (KIP-480).
"""

import random

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_SHIFT = 24
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Compute the hash of org.apache.kafka.common.utils.Utils.murmur2, 32 bits unsigned."""
    size = len(data)
    hash_ = _SEED ^ size
    whole = size & ~3
    for at in range(0, whole, 4):
        word = (int.from_bytes(data[at : at + 4], "little") * _MULTIPLIER) & _MASK
        word ^= word >> _SHIFT
        hash_ = ((hash_ * _MULTIPLIER) & _MASK) ^ ((word * _MULTIPLIER) & _MASK)
    if size > whole:
        hash_ ^= int.from_bytes(data[whole:], "little")
        hash_ = (hash_ * _MULTIPLIER) & _MASK
    hash_ ^= hash_ >> 13
    hash_ = (hash_ * _MULTIPLIER) & _MASK
    return hash_ ^ (hash_ >> 15)


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition of a key among `partitions`."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions if partitions > 1 else 0


class StickyPartitioner:
    """Sends keyless records to one partition until told that its batch is full."""

    def __init__(self, chance: random.Random | None = None) -> None:
        self._chance = chance or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._current = -1

    def choose(self, key: bytes | None, partitions: int) -> int:
        """Return the partition of a record with `key` in a topic of `partitions`."""
        if key is not None:
            return partition_of(key, partitions)
        if not 0 <= self._current < partitions:
            self._current = self._chance.randrange(partitions)
        return self._current

    def next_batch(self, partitions: int) -> None:
        """Turn to another partition, where there is one: a batch without keys is full."""
        if partitions > 1:
            step = self._chance.randrange(1, partitions)
            self._current = (max(self._current, 0) + step) % partitions
