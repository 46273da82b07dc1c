"""Committed offsets of groups, including those pending in transactions.

Offsets written inside a transaction are pending until its marker: a commit makes them visible, an
abort drops them.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple


class Committed(NamedTuple):
    """A committed offset, as its record in `__consumer_offsets` stores it."""

    offset: int
    leader_epoch: int
    metadata: str
    committed_ms: int
    expires_ms: int = -1
    """When the offset expires, in ms since 1970, set by old clients; -1: by the broker's
    retention."""
    log_offset: int = -1
    """Offset of this record in `__consumer_offsets`; -1 if not tracked."""


Place = tuple[str, str, int]
"""The key of a committed offset: group id, topic, partition."""
ByPartition = dict[int, Committed]
ByTopic = dict[str, ByPartition]


@dataclass(slots=True)
class OffsetStore:
    """All committed offsets of one shard."""

    by_group: dict[str, ByTopic] = field(default_factory=dict)
    open_transactions: dict[int, dict[Place, tuple[int, Committed]]] = field(default_factory=dict)
    """Pending offsets by producer id and place, each with its sequence number in this store."""
    _came: int = 0
    _put_at: dict[Place, int] = field(default_factory=dict)
    """Sequence number of the last write to each place, tracked while any transaction is open."""

    def put(self, place: Place, committed: Committed) -> None:
        """Set the group's committed offset of the partition."""
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
        """Return the group's committed offset of the partition; None if it has none."""
        group, topic, partition = place
        return self.by_group.get(group, {}).get(topic, {}).get(partition)

    def remove(self, place: Place) -> None:
        """Remove the group's committed offset of the partition, in open transactions too."""
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
        """Add `committed` as pending until the producer's transaction ends."""
        self._came += 1
        self.open_transactions.setdefault(producer_id, {})[place] = self._came, committed

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """End the producer's transaction: make its pending offsets visible, or drop them.

        An offset that was committed to the same place later stays: the order of the offset records
        in the log counts, not that of the marker.
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
        """Return whether an open transaction has a pending offset at this place (KIP-447)."""
        transactions = self.open_transactions
        return bool(transactions) and any(place in pending for pending in transactions.values())

    def places(self, group: str) -> Iterator[Place]:
        """Yield each place at which the group has an offset once, places with only pending ones
        last."""
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
        """Return each place in these topics at which any group has an offset, pending ones
        included."""
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
