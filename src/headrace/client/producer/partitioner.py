"""The client's partitioner: by key hash, or without keys one partition until its batch is full.

The next batch of keyless records goes to another partition (KIP-480).
"""

import random

from headrace.record.key_partition import partition_of


class StickyPartitioner:
    """A producer's sticky partitioner: keyless records share a partition until its batch is
    full."""

    def __init__(self, chance: random.Random | None = None) -> None:
        self._chance = chance or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._current = -1

    def choose(self, key: bytes | None, partitions: int) -> int:
        """Return the partition for a record with `key` in a topic with `partitions` partitions."""
        if key is not None:
            return partition_of(key, partitions)
        if not 0 <= self._current < partitions:
            self._current = self._chance.randrange(partitions)
        return self._current

    def next_batch(self, partitions: int) -> None:
        """Choose another partition, if the topic has several: a batch of keyless records is
        full."""
        if partitions > 1:
            step = self._chance.randrange(1, partitions)
            self._current = (max(self._current, 0) + step) % partitions
