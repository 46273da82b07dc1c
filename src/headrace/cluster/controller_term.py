"""One broker's time as the controller, from its election until another's.

Each event is decided on, written, and only then ordered; clients see what has changed with the
orders' end. Events come one at a time.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from headrace.broker.broker import Broker
from headrace.broker.metadata_image import NO_LEADER, ImageDelta
from headrace.cluster import changes
from headrace.cluster.adoption import adopt, identify
from headrace.cluster.catalog import Catalog
from headrace.cluster.cluster_facts import Change, ClusterFacts
from headrace.cluster.events import (
    BrokersJoined,
    BrokersLeft,
    Event,
    ReassignmentAdvanced,
    ReplicasFailed,
    TopicsDeleted,
)
from headrace.cluster.orders import Order, Orders, OrderTaker, Stop
from headrace.cluster.reassignment import runs
from headrace.cluster.writer import Outcome, Writer
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, TopicPartition

_logger = logging.getLogger(__name__)

Peers = Callable[[BrokerId], OrderTaker | None]
"""How orders reach a broker; None: they cannot."""

_NO_ID = bytes(16)


@dataclass(slots=True)
class Result:
    """What came of an event, orders included."""

    refused: dict[TopicPartition, ErrorCode] = field(default_factory=dict)
    failed: dict[TopicPartition, ErrorCode] = field(default_factory=dict)
    """Partitions that a broker could not do as ordered."""


class ControllerTerm:
    """Facts, decisions, orders. Every method under the caller's lock."""

    def __init__(self, broker: Broker, catalog: Catalog, peers: Peers) -> None:
        """`catalog` has just been elected through."""
        self.facts = ClusterFacts()
        self.facts.controller_epoch = catalog.controller_epoch
        self._broker = broker
        self._catalog = catalog
        self._peers = peers
        self._writer = Writer(catalog, self.facts)

    async def begin(self) -> None:
        """Take the cluster as the store has it; every broker is told all it must know."""
        facts, catalog, broker = self.facts, self._catalog, self._broker
        facts.unclean_default = broker.config.unclean_leader_election_enable
        facts.brokers = {broker.broker_id: broker for broker in await catalog.brokers()}
        # One's own store is mended; among others' brokers, one topic must not stop all the others.
        facts.topics = await catalog.topics(
            passed_over=facts.passed_over if catalog.store.shared else None
        )
        await catalog.complete_partitions(facts.topics.values())
        facts.deleting = set(await catalog.deletions())
        await identify(facts, self._writer, broker.random.uuid)
        if catalog.store.shared:
            leaders = {
                state.leader for topic in facts.topics.values() for state in topic.states.values()
            }
            dead = [
                leader for leader in leaders if leader not in facts.brokers and leader != NO_LEADER
            ]
            await self._writer.carry_out(BrokersLeft(dead), Outcome())
        else:
            await self._finish_deletions()
            await adopt(catalog, facts, self._writer, broker)
        await self._greet(list(facts.brokers))
        moving = [
            TopicPartition(topic.name, index)
            for topic, index in facts.partitions_of(facts.brokers)
            if runs(topic.node, index)
        ]
        await self._advance(moving)  # the controller before may have gone before it ended them

    async def carry_out(self, event: Event) -> Result:
        """Have an event decided, written and ordered.

        ApiError NOT_CONTROLLER: the term is over. StoreError: part of it may have been written.
        """
        outcome = Outcome()
        try:
            await self._writer.carry_out(event, outcome)
        finally:
            failed = await self._send(outcome.taken)
        if isinstance(event, TopicsDeleted):
            await self._end_deletions(outcome.taken, failed)
        elif self._catalog.store.shared:
            await self._follow_up(outcome.taken, failed)
        return Result(outcome.refused, failed)

    async def brokers_changed(self) -> None:
        """Look who is registered, and act on who came, went, or was away in between."""
        facts = self.facts
        alive = {broker.broker_id: broker for broker in await self._catalog.brokers()}
        same = {key: broker for key, broker in facts.brokers.items() if alive.get(key) == broker}
        left = [key for key in facts.brokers if key not in same]
        joined = [key for key in alive if key not in same]
        if not left and not joined:
            return
        facts.brokers = same
        facts.leaving.difference_update(left)
        facts.failed = {pair for pair in facts.failed if pair[0] not in left}
        if left:
            await self.carry_out(BrokersLeft(left))
        facts.brokers = alive
        await self._greet(joined)

    async def _greet(self, joined: Sequence[BrokerId]) -> None:
        """Give the brokers that came what they can lead, and tell all who is there."""
        outcome = Outcome()
        mine = not self._catalog.store.shared
        await self._writer.carry_out(BrokersJoined(joined, logs_made=mine), outcome)
        stops = [
            changes.deletion(self.facts.topics[name], marked=True)
            for name in sorted(self.facts.deleting & self.facts.topics.keys())
            if not mine
        ]
        failed = await self._send([*outcome.taken, *stops], joined)
        await self._end_deletions(stops, failed)

    async def _send(
        self, taken: Sequence[Change], joined: Collection[BrokerId] | None = None
    ) -> dict[TopicPartition, ErrorCode]:
        """Order what was written; `joined` are shown everything, and all are shown the brokers."""
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
        return {partition: code for answer in answers for partition, code in answer.items()}

    async def _tell(self, broker: BrokerId, orders: Orders) -> dict[TopicPartition, ErrorCode]:
        taker = self._peers(broker)
        if taker is None:
            return {_key(order): ErrorCode.BROKER_NOT_AVAILABLE for order in orders.orders}
        try:
            return dict(await taker.take(orders))
        except ApiError as error:
            _logger.error("broker %d does not take orders: %s", broker, error)
            return {_key(order): error.code for order in orders.orders}

    async def _follow_up(
        self, taken: Iterable[Change], failed: dict[TopicPartition, ErrorCode]
    ) -> None:
        """Give what a broker could not lead to another; end reassignments that have arrived."""
        leaders: dict[BrokerId, list[TopicPartition]] = {}
        for key, code in failed.items():
            topic = self.facts.topics.get(key.topic)
            state = topic.states.get(key.partition) if topic else None
            if code is ErrorCode.KAFKA_STORAGE_ERROR and state and state.leader != NO_LEADER:
                leaders.setdefault(state.leader, []).append(key)
        for broker, partitions in leaders.items():
            self.facts.failed |= {(broker, key) for key in partitions}
            await self.carry_out(ReplicasFailed(broker, partitions))
        moving = [
            TopicPartition(change.topic, index)
            for change in taken
            for index, _ in change.states
            if change.topic in self.facts.topics
            and runs(self.facts.topics[change.topic].node, index)
        ]
        await self._advance(moving)

    async def _advance(self, moving: Iterable[TopicPartition]) -> None:
        """End the reassignments that have arrived, each decided on what the one before left."""
        for partition in moving:
            await self.carry_out(ReassignmentAdvanced([partition]))

    async def _end_deletions(
        self, taken: Iterable[Change], failed: dict[TopicPartition, ErrorCode]
    ) -> None:
        """Forget topics all of whose logs are gone.

        The others stay marked, and a broker that comes goes on: forgotten, the logs of a failed
        directory would come back as a topic to adopt.
        """
        kept = {key.topic for key in failed}
        for change in taken:
            topic = self.facts.topics.get(change.topic)
            if not change.deleted or topic is None:
                continue
            replicas = {replica for found in topic.node.partitions.values() for replica in found}
            if topic.name in kept or not replicas <= self.facts.brokers.keys():
                _logger.error(
                    "topic %s cannot be deleted yet: replicas are left on brokers that are away or "
                    "failed: it goes when they are back", topic.name,
                )  # fmt: skip
                continue
            await self._catalog.end_deletion(topic.name)
            self.facts.forget(topic.name)

    async def _finish_deletions(self) -> None:
        """Go on with deletions that a former process began, in a store of our own."""
        epoch = self.facts.controller_epoch
        for name in sorted(self.facts.deleting):
            found = [key for key in self._broker.found() if key.topic == name]
            stops = [Stop(key, _NO_ID, changes.DELETED_EPOCH, delete=True) for key in found]
            failed = await self._tell(self._broker.broker_id, Orders(epoch, -1, stops))
            if failed:
                _logger.error(
                    "topic %s cannot be deleted yet: a log directory has failed: mend the disk and "
                    "restart the broker", name,
                )  # fmt: skip
                continue
            await self._catalog.end_deletion(name)
            self.facts.forget(name)


def _key(order: Order) -> TopicPartition:
    return order.topic_partition if isinstance(order, Stop) else order.replication.topic_partition
