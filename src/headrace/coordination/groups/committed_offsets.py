"""Committed offsets: what a restarted consumer goes on from.

Offsets written inside a transaction wait beside the others until its marker comes: a commit makes
them count, an abort drops them.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple


class Committed(NamedTuple):
    """An offset as it lies in the log."""

    offset: int
    leader_epoch: int
    metadata: str
    committed_ms: int
    expires_ms: int = -1
    """Of old clients that said how long to keep it; -1: as the broker is configured."""
    log_offset: int = -1
    """Where its record lies in `__consumer_offsets`; -1 where nobody asks."""


Place = tuple[str, str, int]
"""Group, topic, partition."""
ByPartition = dict[int, Committed]
ByTopic = dict[str, ByPartition]


@dataclass(slots=True)
class OffsetStore:
    """All offsets of one shard."""

    by_group: dict[str, ByTopic] = field(default_factory=dict)
    open_transactions: dict[int, dict[Place, tuple[int, Committed]]] = field(default_factory=dict)
    """By producer id: offsets whose transaction has not ended, and when they came."""
    _came: int = 0
    _put_at: dict[Place, int] = field(default_factory=dict)
    """When a place was last put, as long as any transaction is open."""

    def put(self, place: Place, committed: Committed) -> None:
        """Set the group's offset for the partition to `committed`."""
        if self.open_transactions:
            self._came += 1
            self._put_at[place] = self._came
        group, topic, partition = place
        topics = self.by_group.get(group)
        if topics is None:
            topics = self.by_group[group] = {}
        partitions = topics.get(topic)
        if partitions is None:
            partitions = topics[topic] = {}
        partitions[partition] = committed

    def get(self, place: Place) -> Committed | None:
        """Return the group's offset for the partition, None where there is none."""
        group, topic, partition = place
        return self.by_group.get(group, {}).get(topic, {}).get(partition)

    def remove(self, place: Place) -> None:
        """Remove the group's offset for the partition, in open transactions too."""
        group, topic, partition = place
        for pending in self.open_transactions.values():
            pending.pop(place, None)
        topics = self.by_group.get(group)
        partitions = None if topics is None else topics.get(topic)
        if topics is None or partitions is None:
            return
        partitions.pop(partition, None)
        if not partitions:
            del topics[topic]
        if not topics:
            del self.by_group[group]

    def put_in_transaction(self, producer_id: int, place: Place, committed: Committed) -> None:
        """Keep `committed` until the producer's transaction ends."""
        self._came += 1
        self.open_transactions.setdefault(producer_id, {})[place] = self._came, committed

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """End the producer's transaction: its offsets count, or are gone.

        One written by somebody else after it stays: the log's order decides, not the marker's.
        """
        pending = self.open_transactions.pop(producer_id, None)
        if pending is not None and committed:
            for place, (came, offset) in pending.items():
                if came > self._put_at.get(place, 0):
                    self.put(place, offset)
                    self._put_at[place] = came
        if not self.open_transactions:
            self._put_at.clear()

    def is_unstable(self, place: Place) -> bool:
        """Tell whether an open transaction may change this offset yet (KIP-447)."""
        transactions = self.open_transactions
        return bool(transactions) and any(place in pending for pending in transactions.values())

    def in_transaction(self, group: str) -> bool:
        """Tell whether any open transaction holds offsets of `group`."""
        return any(
            place[0] == group for pending in self.open_transactions.values() for place in pending
        )

    def places(self, group: str) -> Iterator[Place]:
        """Yield all partitions the group has an offset for, pending ones last, each once."""
        topics = self.by_group.get(group, {})
        for topic, partitions in topics.items():
            for partition in partitions:
                yield group, topic, partition
        seen: set[Place] = set()
        for pending in self.open_transactions.values():
            for place in pending:
                if place[0] == group and place not in seen and self.get(place) is None:
                    seen.add(place)
                    yield place

    def places_in(self, topics: Collection[str]) -> list[Place]:
        """Return all offsets any group has in these topics, pending ones too, each once."""
        found: dict[Place, None] = {}
        for group in self.by_group:
            for place in self.places(group):
                if place[1] in topics:
                    found[place] = None
        for pending in self.open_transactions.values():
            for place in pending:
                if place[1] in topics:
                    found[place] = None
        return list(found)
