"""`ControllerTerm`: one broker's time as the controller, from its election to another's.

Each event is decided, written to the store, and then ordered, one event at a time. Clients are
shown the change with the orders.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.broker.broker import Broker
from headrace.broker.metadata_image import NO_LEADER, ImageDelta
from headrace.broker.producer_ids import PRODUCER_ID_BLOCK_SIZE
from headrace.cluster.controller.adopted_metadata import adopt, identify
from headrace.cluster.controller.writer import Outcome, Writer, log_unclean
from headrace.cluster.decisions import changes
from headrace.cluster.decisions.events import (
    BrokersJoined,
    BrokersLeft,
    BrokerSuspected,
    Event,
    IsrAsked,
    LeadersRestarted,
    ReassignmentAdvanced,
    ReplicasDamaged,
    ReplicasFailed,
    ShutdownAsked,
    TopicsDeleted,
)
from headrace.cluster.decisions.facts import Change, ClusterFacts
from headrace.cluster.decisions.orders import Failed, Order, Orders, OrderTaker, Stop, is_overtaken
from headrace.cluster.decisions.reassignment import runs
from headrace.cluster.store.catalog import Catalog
from headrace.cluster.store.stored_topic import NEVER_LED
from headrace.cluster.store.znodes import ProducerIdBlock
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.replication.controller_calls import IsrAnswer

_logger = logging.getLogger(__name__)


Takers = Callable[[BrokerId, ClusterFacts], OrderTaker | None]

_NO_ID = bytes(16)


@dataclass(slots=True)
class Result:
    """The outcome of an event: refused partitions, and orders that leaders failed to carry out."""

    refused: dict[TopicPartition, ErrorCode] = field(default_factory=dict)
    failed: dict[TopicPartition, ErrorCode] = field(default_factory=dict)
    """Partitions whose leader could not carry out its order."""


class ControllerTerm:
    """The controller's facts, decisions and orders.

    Every method is called under the caller's lock.
    """

    def __init__(self, broker: Broker, catalog: Catalog, takers: Takers) -> None:
        """Create the term, after this broker was elected by `catalog`.

        `takers` returns the order channel of a broker.
        """
        self.facts = ClusterFacts()
        self.facts.controller_epoch = catalog.controller_epoch
        self._broker = broker
        self._catalog = catalog
        self._takers = takers
        self._writer = Writer(catalog, self.facts)

    async def begin(self, suspects: Mapping[BrokerId, int]) -> None:
        """Read the cluster from the store, and send orders to all brokers.

        With a shared store, dead brokers leave the ISRs, and `suspects` (by broker epoch) as far as
        others are in sync; with one of its own, a broker also adopts unknown logs.
        """
        facts, catalog, broker = self.facts, self._catalog, self._broker
        facts.suspects = suspects
        facts.unclean_default = broker.config.unclean_leader_election_enable
        facts.register(await catalog.registered())
        # A malformed topic is an error in a store of one's own; in a shared one it must not stop
        # the cluster, and is ignored.
        facts.topics = await catalog.topics(
            passed_over=facts.passed_over if catalog.store.shared else None
        )
        await catalog.complete_partitions(facts.topics.values())
        facts.deleting = set(await catalog.deletions())
        await identify(facts, self._writer, broker.random.uuid)
        if catalog.store.shared:
            # A controller that died may still be in ISRs of partitions that other brokers lead.
            held = {
                replica
                for topic in facts.topics.values()
                for replicas in topic.node.partitions.values()
                for replica in replicas
            }
            dead = sorted(held - facts.brokers.keys())
            outcome = Outcome()
            await self._writer.carry_out(BrokersLeft(dead), outcome)
            for suspect in tuple(suspects.items()):
                await self._writer.carry_out(BrokerSuspected(*suspect), outcome)
            self._note_unclean(outcome.taken)
        else:
            await self._finish_deletions()
            await adopt(catalog, facts, self._writer, broker)
        await self._greet(list(facts.brokers))
        moving = [
            TopicPartition(topic.name, index)
            for topic, index in facts.partitions_of(facts.brokers)
            if runs(topic.node, index)
        ]
        await self._advance(moving)  # left by the former controller

    async def carry_out(self, event: Event) -> Result:
        """Decide on an event, write the changes, and send the orders.

        Return what was refused or failed. ApiError NOT_CONTROLLER: the term is over. StoreError:
        part of it may have been written.
        """
        outcome = Outcome()
        try:
            await self._writer.carry_out(event, outcome)
        finally:
            self._note_unclean(outcome.taken)
            failed = await self._send(outcome.taken)
        led: dict[TopicPartition, ErrorCode] = {
            key: code
            for broker, codes in failed.items()
            for key, code in codes.items()
            if self._leader(key) == broker and code is not ErrorCode.CORRUPT_MESSAGE
        }
        if isinstance(event, TopicsDeleted):
            await self._end_deletions(outcome.taken, failed)
        elif self._catalog.store.shared:
            await self._follow_up(outcome.taken, failed)
            if isinstance(event, BrokerSuspected):
                await self._repeat_stops()
        return Result(outcome.refused, led)

    def configs_changed(self, delta: ImageDelta) -> None:
        """Take over the settings of topics that this broker's metadata image has received."""
        for topic in delta.topics:
            stored = self.facts.topics.get(topic.name)
            if stored is not None:
                stored.config = topic.config

    async def brokers_changed(self) -> None:
        """Read the registrations; decide for brokers that joined, left or registered again."""
        facts = self.facts
        alive = await self._catalog.registered()
        known = facts.brokers
        joined = [found for found in alive if known.get(found.broker.broker_id) != found.broker]
        new = {found.broker.broker_id for found in joined}
        same = {found.broker.broker_id for found in alive} - new
        left = [broker for broker in known if broker not in same]
        if not left and not joined:
            return
        facts.keep(same)
        if left:
            await self.carry_out(BrokersLeft(left))
        facts.register(joined)
        await self._greet(sorted(new))

    async def _greet(self, joined: Sequence[BrokerId]) -> None:
        """Decide for joined brokers, and send all brokers the new list of live ones."""
        outcome = Outcome()
        mine = not self._catalog.store.shared
        await self._writer.carry_out(BrokersJoined(joined, logs_made=mine), outcome)
        self._note_unclean(outcome.taken)
        stops = [] if mine else self._stops()
        failed = await self._send([*outcome.taken, *stops], joined)
        await self._end_deletions(stops, failed)
        if not mine:
            await self._follow_up(outcome.taken, failed)

    def _note_unclean(self, taken: Iterable[Change]) -> None:
        self._broker.metrics.unclean_elections += log_unclean(taken)

    def _stops(self) -> list[Change]:
        """Return changes that repeat the stop orders of topics whose deletion has begun."""
        return [
            changes.deletion(self.facts.topics[name], marked=True)
            for name in sorted(self.facts.deleting & self.facts.topics.keys())
        ]

    async def answered_late(self, broker: BrokerId, orders: Orders, failed: Failed) -> None:
        """Act on the late outcome of orders, as on one in time."""
        self.facts.served(broker, orders.orders, failed)
        await self._follow_up((), {broker: failed})
        if any(isinstance(order, Stop) and order.delete for order in orders.orders):
            await self._repeat_stops()

    async def _repeat_stops(self) -> None:
        """Have the deletions that are not complete continue, if there are any."""
        stops = self._stops()
        await self._end_deletions(stops, await self._send(stops))

    def _leader(self, partition: TopicPartition) -> BrokerId:
        topic = self.facts.topics.get(partition.topic)
        state = topic.states.get(partition.partition) if topic else None
        return NO_LEADER if state is None else state.leader

    async def alter_partitions(
        self, event: IsrAsked
    ) -> dict[TopicPartition, IsrAnswer | ErrorCode]:
        """Apply a leader's ISR changes; return for each partition its state now, or the error code.

        ApiError STALE_BROKER_EPOCH: the leader is registered again, or not at all.
        """
        self._check_broker(event.broker, event.broker_epoch)
        result = await self.carry_out(event)
        answers: dict[TopicPartition, IsrAnswer | ErrorCode] = {}
        for asked in event.asked:
            partition = asked.topic_partition
            code = result.refused.get(partition)
            answers[partition] = self._answer(partition) if code is None else code
        return answers

    def _answer(self, partition: TopicPartition) -> IsrAnswer:
        topic = self.facts.topics[partition.topic]
        state, version = topic.states[partition.partition], topic.versions[partition.partition]
        return IsrAnswer(state.leader, state.leader_epoch, state.isr, version)

    def _check_broker(self, broker: BrokerId, broker_epoch: int) -> None:
        known = self.facts.brokers.get(broker)
        if known is None or known.epoch != broker_epoch:
            raise ApiError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker} is registered otherwise")

    async def allocate_producer_ids(self, broker: BrokerId, broker_epoch: int) -> ProducerIdBlock:
        """Reserve a block of producer ids for a broker. ApiError STALE_BROKER_EPOCH."""
        self._check_broker(broker, broker_epoch)
        return await self._catalog.reserve_producer_ids(broker, PRODUCER_ID_BLOCK_SIZE)

    async def shut_down(self, broker: BrokerId, broker_epoch: int) -> list[TopicPartition]:
        """Move leadership from a broker that stops; return the partitions that it should wait for.

        These it still leads, and another remaining broker has a replica that may join the ISR.
        ApiError: BROKER_NOT_AVAILABLE if the broker is not registered, STALE_BROKER_EPOCH if it
        registered again.
        """
        facts = self.facts
        known = facts.brokers.get(broker)
        if known is None:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker} is not registered")
        if -1 != broker_epoch < known.epoch:
            raise ApiError(ErrorCode.STALE_BROKER_EPOCH)
        facts.leaving.add(broker)
        await self.carry_out(ShutdownAsked(broker))
        return [
            TopicPartition(topic.name, index)
            for topic, index in facts.partitions_of((broker,))
            if topic.states.get(index, NEVER_LED).leader == broker
            and any(
                facts.may_lead(replica, TopicPartition(topic.name, index))
                for replica in topic.node.partitions[index]
            )
        ]

    async def _send(
        self, taken: Sequence[Change], joined: Collection[BrokerId] | None = None
    ) -> dict[BrokerId, Failed]:
        """Send the orders of written changes; return the failed partitions of each broker.

        If `joined` is given, its brokers get the whole cluster, and all others the list of live
        brokers.
        """
        if not taken and joined is None:
            return {}
        facts, me = self.facts, self._broker.broker_id
        by_broker: dict[BrokerId, list[Order]] = {broker: [] for broker in facts.brokers}
        for change in taken:
            for broker, order in change.orders:
                if broker in by_broker:
                    by_broker[broker].append(order)
        known = by_broker.keys() - (joined or ())
        delta = facts.delta(taken) if known else ImageDelta()
        if joined is not None:
            delta = delta._replace(brokers=list(facts.brokers.values()), controller_id=me)
        whole = facts.everything(me) if joined else delta
        messages = {
            broker: Orders(
                facts.controller_epoch,
                facts.brokers[broker].epoch,
                orders,
                delta if broker in known else whole,
            )
            for broker, orders in by_broker.items()
        }
        answers = await asyncio.gather(*(self._tell(*message) for message in messages.items()))
        return dict(zip(messages, answers, strict=True))

    async def _tell(self, broker: BrokerId, orders: Orders) -> Failed:
        taker = self._takers(broker, self.facts)
        if taker is None:
            return {_key(order): ErrorCode.BROKER_NOT_AVAILABLE for order in orders.orders}
        try:
            failed = dict(await taker.take(orders))
        except ApiError as error:
            expected = broker in self.facts.leaving or is_overtaken(error)
            level = logging.INFO if expected else logging.ERROR
            _logger.log(
                level, "broker %d did not accept the controller's orders: %s", broker, error
            )
            return {_key(order): error.code for order in orders.orders}
        self.facts.served(broker, orders.orders, failed)
        return failed

    async def _follow_up(self, taken: Iterable[Change], failed: Mapping[BrokerId, Failed]) -> None:
        """Decide for replicas that failed or are damaged, restarted leaders, and reassignments."""
        for broker, codes in failed.items():
            storage = ErrorCode.KAFKA_STORAGE_ERROR
            lost = [
                key
                for key, code in codes.items()
                if code is storage and (broker, key) not in self.facts.failed
            ]
            if lost:
                self.facts.failed |= {(broker, key) for key in lost}
                await self.carry_out(ReplicasFailed(broker, lost))
            damaged = [
                key
                for key, code in codes.items()
                if code is ErrorCode.CORRUPT_MESSAGE and (broker, key) not in self.facts.damaged
            ]
            if damaged:
                self.facts.damaged |= {(broker, key) for key in damaged}
                await self.carry_out(ReplicasDamaged(broker, damaged))
        restarted = [
            key
            for codes in failed.values()
            for key, code in codes.items()
            if code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        ]
        if restarted:
            await self.carry_out(LeadersRestarted(restarted))
        moving = [
            TopicPartition(change.topic, index)
            for change in taken
            for index, _ in change.states
            if change.topic in self.facts.topics
            and runs(self.facts.topics[change.topic].node, index)
        ]
        await self._advance(moving)

    async def _advance(self, moving: Iterable[TopicPartition]) -> None:
        """Complete the reassignments that can be, each decided on the result of the one before."""
        for partition in moving:
            await self.carry_out(ReassignmentAdvanced([partition]))

    async def _end_deletions(
        self, taken: Iterable[Change], failed: Mapping[BrokerId, Failed]
    ) -> None:
        """Remove topics from the store whose logs are all deleted.

        Others stay marked, and their deletion continues when their brokers return: without the
        mark, a failed directory's logs would be adopted as a topic.
        """
        facts = self.facts
        alive = [broker for broker in facts.brokers if not facts.is_suspected(broker)]
        kept = {key.topic for broker in alive for key in failed.get(broker, ())}
        for change in taken:
            topic = self.facts.topics.get(change.topic)
            if not change.deleted or topic is None:
                continue
            left = self._catalog.leave_replicas
            if topic.name in kept or not await left(topic, alive, facts.suspects):
                _logger.error(
                    "topic %s: deletion is not complete: brokers that are down, or that could not"
                    " delete it, have replicas. It continues when these brokers are back",
                    topic.name,
                )  # fmt: skip
                continue
            await self._catalog.end_deletion(topic.name)
            self.facts.forget(topic.name)

    async def _finish_deletions(self) -> None:
        """Continue deletions that a former process began, with a store of this broker's own."""
        epoch = self.facts.controller_epoch
        for name in sorted(self.facts.deleting):
            found = [key for key in self._broker.found() if key.topic == name]
            stops = [Stop(key, _NO_ID, changes.DELETED_EPOCH, delete=True) for key in found]
            failed = await self._tell(self._broker.broker_id, Orders(epoch, -1, stops))
            if failed:
                _logger.error(
                    "topic %s: deletion is not complete: a log directory has failed. Repair the"
                    " disk and restart the broker", name,
                )  # fmt: skip
                continue
            await self._catalog.end_deletion(name)
            self.facts.forget(name)


def _key(order: Order) -> TopicPartition:
    return order.topic_partition if isinstance(order, Stop) else order.replication.topic_partition
