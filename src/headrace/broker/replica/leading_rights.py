"""`LeadingRights`: this broker's rights to be the only leader, and the epochs that it names.

The rules are those of `leading_right`; here they get the controller's orders and the states of led
partitions. `server.cluster.lease_pings` gets the answers of other brokers.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Protocol

from headrace.broker.partition import Partition
from headrace.broker.replica.leading_right import (
    Grants,
    KnownEpochs,
    Leaderships,
    Leading,
    PartitionKey,
    Ping,
    PingAnswer,
)
from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition

_NO_INCARNATION = -1


class Partitions(Protocol):
    """The broker's id and the partitions that it leads (`broker.broker.Broker`)."""

    @property
    def broker_id(self) -> BrokerId: ...
    @property
    def partitions(self) -> dict[tuple[str, int], Partition]: ...


class LeadingRights:
    """The rights for partitions of topics that need one. Called on the deciding thread."""

    def __init__(
        self,
        broker: Partitions,
        needs: Callable[[str], bool],
        lease: Callable[[TopicPartition], bool],
        boot_seconds: Callable[[], float],
    ) -> None:
        """Create without any right.

        `needs`: whether a topic's leader must be the only one. `lease`: whether the lease of the
        session in which this broker was ordered to lead a partition holds.
        """
        self.grants = Grants()
        self._broker = broker
        self._needs = needs
        self._boot_seconds = boot_seconds
        self._known = KnownEpochs(_NO_INCARNATION)
        self._leaderships = Leaderships(self.grants, lambda key: lease(self._led[key][0]))
        self._led: dict[PartitionKey, tuple[TopicPartition, tuple[BrokerId, ...]]] = {}
        """The led partitions that need a right, with their replicas."""
        self._others: frozenset[BrokerId] | None = None

    # --- orders ----------------------------------------------------------------------------------

    def ordered(
        self,
        partition: TopicPartition,
        topic_id: bytes,
        epoch: LeaderEpoch,
        led_with: tuple[BrokerId, ...],
    ) -> None:
        """Note an order that was carried out.

        `led_with`: the replicas of a partition that this broker leads by it; empty: it does not.
        """
        if not self._needs(partition.topic):
            return
        key = (topic_id, partition.partition)
        now = self._boot_seconds()
        self._others = None
        # In one step: a leader that has begun to wait must not be able to renew another's right.
        self._known.learn(key, epoch)
        if led_with:
            self._leaderships.lead(key, epoch, now)
            self._led[key] = partition, led_with
        else:
            self._leaderships.end(key, epoch, now)
            self._led.pop(key, None)

    def stopped(self, partition: TopicPartition, topic_id: bytes, *, deleted: bool) -> None:
        """Note that a replica is stopped, and perhaps deleted."""
        if not self._needs(partition.topic):
            return
        key = (topic_id, partition.partition)
        self._leaderships.forget(key)
        self._led.pop(key, None)
        self._others = None
        if deleted:
            self._known.forget(key)

    # --- other brokers ---------------------------------------------------------------------------

    def answer(self, ping: Ping, broker_epoch: int) -> PingAnswer:
        """Return the leader epochs that a ping does not know.

        `broker_epoch`: that of this broker's registration. The first one names the process.
        """
        if self._known.incarnation == _NO_INCARNATION:
            self._known.incarnation = broker_epoch
        return self._known.answer(ping)

    @property
    def others(self) -> frozenset[BrokerId]:
        """The other replicas of led partitions: the brokers to be pinged."""
        if self._others is None:
            replicas = {replica for _, found in self._led.values() for replica in found}
            self._others = frozenset(replicas - {self._broker.broker_id})
        return self._others

    def leave_silent(self, silent: Collection[BrokerId]) -> Iterator[Partition]:
        """Yield the led partitions that `silent` members are to leave the ISR of, by a request."""
        for topic_partition, _ in tuple(self._led.values()):
            partition = self._broker.partitions.get(topic_partition)
            term = None if partition is None else partition.role.term
            change = None if term is None else term.leave_silent(silent)
            if partition is not None and change is not None:
                yield partition

    # --- rights ----------------------------------------------------------------------------------

    def holds(self, partition: Partition) -> bool:
        """Return whether this broker is the only leader of a partition now."""
        key = (partition.topic_id, partition.topic_partition.partition)
        if key not in self._led:
            return False
        term = partition.role.term
        if term is None:
            leading = Leading(key, partition.leader_epoch, frozenset(), 1, 1)
        else:
            others = term.maximal - {self._broker.broker_id}
            in_sync, replicas = len(term.in_sync), len(term.assigned)
            leading = Leading(key, partition.leader_epoch, others, in_sync, replicas)
        return self._leaderships.holds(leading, self._boot_seconds())
