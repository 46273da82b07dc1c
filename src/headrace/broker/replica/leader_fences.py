"""`LeaderFences`: questions of a new leader to other brokers, whether they gave their right up.

Only the leader of the epoch before can answer yes, if its process held the right then. A new leader
need not know which broker that is: it asks all that may be, with its next ping to each (ADR 78).
"""

from collections.abc import Collection, Mapping

from headrace.broker.replica.leading_right import PartitionKey
from headrace.model.nouns import NO_EPOCH, BrokerId, LeaderEpoch

_NONE: Mapping[PartitionKey, LeaderEpoch] = {}


class LeaderFences:
    """The partitions that this broker is to lead and has not begun to, with the brokers to ask."""

    def __init__(self) -> None:
        self._asked: dict[PartitionKey, tuple[LeaderEpoch, set[BrokerId]]] = {}

    @property
    def brokers(self) -> set[BrokerId]:
        """The brokers that have not answered a question."""
        return set[BrokerId]().union(*(left for _, left in self._asked.values()))

    def ask(self, key: PartitionKey, epoch: LeaderEpoch, brokers: Collection[BrokerId]) -> None:
        """Ask `brokers` whether they gave up the right that they held until `epoch`."""
        if epoch > self._asked.get(key, (NO_EPOCH, ()))[0]:
            self._asked[key] = epoch, set(brokers)

    def end(self, key: PartitionKey) -> None:
        """Stop asking: the partition is begun, or led by another broker."""
        self._asked.pop(key, None)

    def of(self, broker: BrokerId) -> Mapping[PartitionKey, LeaderEpoch]:
        """Return the epochs by which a broker is to give up its rights, for the next ping to it."""
        if not self._asked:
            return _NONE
        return {key: epoch for key, (epoch, left) in self._asked.items() if broker in left}

    def answered(self, broker: BrokerId, fences: Mapping[PartitionKey, LeaderEpoch]) -> None:
        """Note that a broker has answered the questions of a ping."""
        for key, epoch in fences.items():
            asked, left = self._asked.get(key, (NO_EPOCH, set[BrokerId]()))
            if asked == epoch:
                left.discard(broker)
