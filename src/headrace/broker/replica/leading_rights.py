"""`LeadingRights`: this broker's rights to be the only leader, and the epochs that it names.

The rules are those of `leading_right`; here they get the controller's orders and the states of led
partitions. `server.cluster.lease_pings` sends the pings and gets the answers of other brokers,
`held_rights` reports which rights begin and end.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Protocol

from headrace.broker.metadata_image import NO_LEADER, MetadataImage
from headrace.broker.partition import Partition
from headrace.broker.replica.leader_fences import LeaderFences
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
NO_BROKERS: frozenset[BrokerId] = frozenset()


class Partitions(Protocol):
    """The broker's id, its metadata and the partitions that it leads (`broker.broker.Broker`)."""

    @property
    def broker_id(self) -> BrokerId: ...
    @property
    def image(self) -> MetadataImage: ...
    @property
    def partitions(self) -> dict[tuple[str, int], Partition]: ...


class RightsWatch(Protocol):
    """A watch over changes of rights, but for those that time brings."""

    @property
    def reported(self) -> Mapping[TopicPartition, bool]:
        """The led partitions, each with whether its right is held, as it was reported."""

    def look(self, partition: TopicPartition) -> None:
        """Note that a partition's right may have begun or ended."""

    def granted(self, broker: BrokerId, until: float, *, first: bool) -> None:
        """Note a broker's grants until a time on the boot-time clock.

        `first`: it is a new process; the grants of the former one do not count.
        """

    def waits(self, key: PartitionKey, begins_at: float) -> None:
        """Note that this broker begins to lead a partition at a time, if not before."""

    def check(self) -> None:
        """End the rights whose time is over by now."""


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
        self._grants = Grants()
        self._broker = broker
        self._needs = needs
        self._boot_seconds = boot_seconds
        self._known = KnownEpochs(_NO_INCARNATION)
        self._leaderships = Leaderships(self._grants, lambda key: lease(self.led[key][0]))
        self._fences = LeaderFences()
        self.led: dict[PartitionKey, tuple[TopicPartition, tuple[BrokerId, ...]]] = {}
        """The led partitions that need a right, with their replicas."""
        self._others: frozenset[BrokerId] | None = None
        self._homes: dict[PartitionKey, frozenset[BrokerId]] = {}
        """The homes of partitions whose right was given up here, or by the former leader."""
        self._unfenced: set[PartitionKey] = set()
        """Partitions that another broker leads now, which has not asked for the right yet."""
        self.homes_of: Callable[[TopicPartition], frozenset[BrokerId]] = lambda _: NO_BROKERS
        """Returns the brokers whose channels hold deliveries of a partition led here."""
        self.watch: RightsWatch | None = None
        self.ping_soon: Callable[[], None] = lambda: None
        """Sends a ping with the fences of new leaderships, without a wait."""

    # --- orders ----------------------------------------------------------------------------------

    def ordered(
        self,
        partition: TopicPartition,
        topic_id: bytes,
        epoch: LeaderEpoch,
        led_with: tuple[BrokerId, ...],
    ) -> None:
        """Note an order to lead that was carried out, or another one that is about to be.

        `led_with`: the replicas of a partition that this broker leads by it; empty: it does not.
        """
        if not self._needs(partition.topic):
            return
        key = (topic_id, partition.partition)
        self._others = None
        # In one step: a leader that has begun to wait must not be able to renew another's right.
        self._known.learn(key, epoch)
        if led_with:
            self._lead(partition, key, epoch, led_with)
        else:
            self._end(key, epoch)
        self._look(partition)

    def _lead(
        self,
        partition: TopicPartition,
        key: PartitionKey,
        epoch: LeaderEpoch,
        led_with: tuple[BrokerId, ...],
    ) -> None:
        now = self._boot_seconds()
        self._leaderships.lead(key, epoch, now)
        self.led[key] = partition, led_with
        self._watch_isr(partition)
        if self._leaderships.begun(key, epoch, now):
            return
        self._homes.pop(key, None)
        if self.watch is not None:
            self.watch.waits(key, self._leaderships.begins_at(key))
        asked = {*led_with, self._broker.image.leader_of(partition)}
        self._fences.ask(key, epoch, asked - {self._broker.broker_id, NO_LEADER})
        self.ping_soon()

    def _watch_isr(self, partition: TopicPartition) -> None:
        found = self._broker.partitions.get(partition)
        term = None if found is None else found.role.term
        if term is not None:
            term.isr_changed = lambda: self._look(partition)

    def _end(self, key: PartitionKey, epoch: LeaderEpoch) -> None:
        """End this broker's right: another broker leads in `epoch`."""
        led = self.led.pop(key, None)
        if led is not None:
            self._homes[key] = self.homes_of(led[0])
            self._unfenced.add(key)
        self._fences.end(key)
        self._leaderships.end(key, epoch, self._boot_seconds())

    @property
    def is_fenced(self) -> bool:
        """Whether no right is left here that another broker may wait for."""
        return not self._unfenced and all(len(replicas) == 1 for _, replicas in self.led.values())

    def stopped(self, partition: TopicPartition, topic_id: bytes, *, deleted: bool) -> None:
        """Note that a replica is stopped, and perhaps deleted."""
        if not self._needs(partition.topic):
            return
        key = (topic_id, partition.partition)
        self._leaderships.forget(key)
        self._fences.end(key)
        self.led.pop(key, None)
        self._homes.pop(key, None)
        self._unfenced.discard(key)
        self._others = None
        if deleted:
            self._known.forget(key)
        self._look(partition)

    # --- the other brokers' pings ----------------------------------------------------------------

    def answer(self, ping: Ping, broker_epoch: int) -> PingAnswer:
        """Give up the rights that a ping ends; return the leader epochs that it does not know.

        `broker_epoch`: that of this broker's registration. The first one names the process.
        """
        if self._known.incarnation == _NO_INCARNATION:
            self._known.incarnation = broker_epoch
        given_up = {
            key: self._homes.get(key, NO_BROKERS)
            for key, epoch in ping.fences.items()
            if self._give_up(key, epoch)
        }
        self._unfenced -= ping.fences.keys()
        return self._known.answer(ping)._replace(given_up=given_up)

    def _give_up(self, key: PartitionKey, epoch: LeaderEpoch) -> bool:
        """End the right in an epoch before `epoch`; return whether it was held in the last one."""
        led = self.led.get(key)
        if led is not None and self._leaderships.leads_before(key, epoch):
            # Not before an order of its own does a process name an epoch: it is one that led.
            self._known.learn(key, epoch)
            self._end(key, epoch)
            self._others = None
            self._look(led[0])
        return self._leaderships.gave_up(key, epoch)

    # --- pings to other brokers ------------------------------------------------------------------

    @property
    def fenced(self) -> Collection[BrokerId]:
        """The brokers that have not answered whether they gave a right up."""
        return self._fences.brokers

    @property
    def others(self) -> frozenset[BrokerId]:
        """The other replicas and the former leaders of led partitions: the brokers to be pinged."""
        if self._others is None:
            replicas = {replica for _, found in self.led.values() for replica in found}
            self._others = frozenset((replicas | self._fences.brokers) - {self._broker.broker_id})
        return self._others

    def ping(self, broker: BrokerId) -> Ping:
        """Return the next ping to a broker."""
        return self._grants.ping(broker)._replace(fences=self._fences.of(broker))

    def answered(self, broker: BrokerId, sent_at: float, ping: Ping, answer: PingAnswer) -> None:
        """Note a broker's answer to a ping of `sent_at`. Answers may come in any order."""
        first = self._grants.answered(broker, sent_at, answer)
        now = self._boot_seconds()
        for key, homes in answer.given_up.items():
            epoch = ping.fences[key]
            self._leaderships.former_gave_up(key, epoch, now)
            if key in self.led and self._leaderships.begun(key, epoch, now):
                self._homes[key] = homes
                self._fences.end(key)
        if ping.fences:
            self._fences.answered(broker, ping.fences)
            self._others = None
        if self.watch is not None:
            self.watch.granted(broker, self._grants.until(broker), first=first)
        self._look_at(dict.fromkeys((*answer.given_up, *answer.epochs)))

    def forget(self, broker: BrokerId) -> None:
        """Forget the grants of a broker whose registration has ended."""
        self._grants.forget(broker)
        if self.watch is not None:
            self.watch.granted(broker, self._grants.until(broker), first=True)

    def check(self) -> None:
        """End the rights whose time is over by now."""
        if self.watch is not None:
            self.watch.check()

    def leave_silent(self, silent: Collection[BrokerId]) -> Iterator[Partition]:
        """Yield the led partitions that `silent` members are to leave the ISR of, by a request."""
        for topic_partition, _ in tuple(self.led.values()):
            partition = self._broker.partitions.get(topic_partition)
            term = None if partition is None else partition.role.term
            change = None if term is None else term.leave_silent(silent)
            if partition is not None and change is not None:
                yield partition

    # --- rights ----------------------------------------------------------------------------------

    def holds(self, partition: Partition) -> bool:
        """Return whether this broker is the only leader of a partition now."""
        key = (partition.topic_id, partition.topic_partition.partition)
        if key not in self.led:
            return False
        term = partition.role.term
        if term is None:
            leading = Leading(key, partition.leader_epoch, NO_BROKERS, 1, 1)
        else:
            others = term.maximal - {self._broker.broker_id}
            in_sync, replicas = len(term.in_sync), len(term.assigned)
            leading = Leading(key, partition.leader_epoch, others, in_sync, replicas)
        return self._leaderships.holds(leading, self._boot_seconds())

    def held(self, partition: TopicPartition) -> bool | None:
        """Return whether this broker is the only leader of a partition; None: it does not lead."""
        found = self._broker.partitions.get(partition)
        if found is None or (found.topic_id, partition.partition) not in self.led:
            return None
        return self.holds(found)

    def reported(self, partition: TopicPartition) -> bool:
        """Return whether this broker acts as the only leader of a partition."""
        return self.watch is not None and self.watch.reported.get(partition, False)

    def alone(self, partition: TopicPartition) -> bool:
        """Return whether the right depends on the lease: no other replica is in the ISR."""
        found = self._broker.partitions.get(partition)
        term = None if found is None else found.role.term
        return term is not None and len(term.in_sync) == 1 and len(term.assigned) > 1

    def take_homes(self, partition: TopicPartition) -> frozenset[BrokerId]:
        """Return the homes that a led partition's former leader named, the first time."""
        found = self._broker.partitions.get(partition)
        if found is None:
            return NO_BROKERS
        return self._homes.pop((found.topic_id, partition.partition), NO_BROKERS)

    def _look(self, partition: TopicPartition) -> None:
        if self.watch is not None:
            self.watch.look(partition)

    def _look_at(self, keys: Collection[PartitionKey]) -> None:
        for key in keys:
            led = self.led.get(key)
            if led is not None:
                self._look(led[0])
