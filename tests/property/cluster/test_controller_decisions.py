"""Whatever happens to a cluster, in whatever order, and whatever becomes of writes and answers."""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from headrace.broker.metadata_image import BrokerInfo
from headrace.cluster.controller.writer import Outcome, Writer
from headrace.cluster.decisions.decide import decide
from headrace.cluster.decisions.events import (
    BrokersJoined,
    BrokersLeft,
    BrokerSuspected,
    ElectionAsked,
    ElectionType,
    Event,
    IsrAsked,
    ReassignmentAdvanced,
    ReassignmentAsked,
    ReplicasFailed,
    ShutdownAsked,
    TopicGrown,
    TopicsCreated,
    TopicsDeleted,
)
from headrace.cluster.decisions.facts import Change, ClusterFacts
from headrace.cluster.decisions.orders import Follow, Lead
from headrace.cluster.store import znodes
from headrace.cluster.store.catalog import Catalog
from headrace.cluster.store.stored_doubts import LOST, Doubt, Registered
from headrace.cluster.store.stored_topic import StoredTopic
from headrace.cluster.store.znodes import PartitionState
from headrace.cluster.topics.creation import Planned
from headrace.model.errors import ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch, Offset, TopicPartition
from headrace.ports.store import Node, Operation, SessionEvents, SessionLost, Set
from headrace.replication.controller_calls import AskedIsr
from headrace.testing.sim.ensemble import Ensemble, EnsembleSession

T = TypeVar("T")
BROKERS = [BrokerId(one) for one in range(4)]
NAMES = ("a", "b", "c")
FATES = ("written", "written", "written", "lost after", "lost before", "another was faster")

brokers = st.sampled_from(BROKERS)
ends = st.sampled_from((LOST, Doubt(LeaderEpoch(-1), Offset(0)), Doubt(LeaderEpoch(3), Offset(9))))
replicas = st.lists(brokers, min_size=1, max_size=3, unique=True).map(tuple)
fates = st.sampled_from(FATES)


class Chance(EnsembleSession):
    """The store as the controller sees it: the next write, or its answer, may be lost."""

    fate = "written"
    rival: Coroutine[Any, Any, Any] | None = None

    async def multi(self, operations: Sequence[Operation]) -> list[Node | str | None]:
        for operation in operations:
            if isinstance(operation, Set) and operation.path != znodes.CONTROLLER_EPOCH:
                assert operation.version >= 0, f"{operation.path} is written blindly"
        fate, self.fate = self.fate, "written"
        if fate == "lost before":
            raise SessionLost("the question was lost")
        if fate == "another was faster" and self.rival is not None:
            await self.rival
        done = await super().multi(operations)
        if fate == "lost after":
            raise SessionLost("the answer was lost")
        return done


class Cluster(RuleBasedStateMachine):
    """A controller's decisions over a store, without brokers: orders are only looked at."""

    @initialize(unclean=st.booleans())
    def begin(self, unclean: bool) -> None:
        self.loop = asyncio.new_event_loop()
        ensemble = Ensemble(0)
        self.store = Chance(ensemble, 1000, "controller", SessionEvents())
        self.other = ensemble.session("other")
        self.catalog = Catalog(self.store)
        self.run(self.catalog.prepare())
        assert self.run(self.catalog.elect(BROKERS[0], 0))
        self.facts = ClusterFacts()
        self.facts.controller_epoch = self.catalog.controller_epoch
        self.facts.unclean_default = unclean
        self.writer = Writer(self.catalog, self.facts)
        self.epoch = 0
        self.ids = 0
        self.moving: dict[TopicPartition, tuple[BrokerId, ...]] = {}
        self.before: dict[tuple[TopicPartition, bytes], PartitionState] = {}
        self.unclean_asked = False
        self.sure = True
        for broker in BROKERS:
            self.enter(broker, {})

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self.loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def enter(self, broker: BrokerId, doubted: Mapping[TopicPartition, Doubt]) -> None:
        self.epoch += 1
        registered = Registered(BrokerInfo(broker, (), None, self.epoch), doubted)
        self.facts.register([registered])

    # --- what is there -------------------------------------------------------------------------

    def there(self) -> list[StoredTopic]:
        facts = self.facts
        return [topic for name, topic in facts.topics.items() if name not in facts.deleting]

    def drawn(self, data: st.DataObject) -> tuple[StoredTopic, int]:
        topic = data.draw(st.sampled_from(self.there()), "topic")
        return topic, data.draw(st.sampled_from(sorted(topic.node.partitions)), "partition")

    async def meddle(self) -> None:
        """Another controller's last write: each ISR is its leader alone."""
        for topic in (await Catalog(self.other).topics()).values():
            for index, state in topic.states.items():
                if state.leader >= 0:
                    alone = PartitionState(state.leader, state.leader_epoch, (state.leader,))
                    path = znodes.state_path(topic.name, index)
                    await self.other.set(path, znodes.encode_state(alone))

    def happens(self, event: Event, fate: str) -> Outcome:
        """Decide and write; look at the orders; ask again on what the store now holds."""
        self.store.fate = fate
        self.store.rival = self.meddle() if fate == "another was faster" else None
        outcome = Outcome()
        self.sure = True
        try:
            self.run(self.writer.carry_out(event, outcome))
        except SessionLost:
            self.sure = False
        if self.store.rival is not None:
            self.store.rival.close()
            self.sure = self.sure and self.store.fate == "written"
        self.store.fate = "written"
        self.check_orders(outcome.taken)
        self.check_states()
        if self.sure:
            read = self.read()
            for topic in read.topics.values():
                for index in topic.states:
                    key = TopicPartition(topic.name, index)
                    assert (
                        topic.versions[index] != self.facts.topics[topic.name].versions[index]
                        or topic.states[index].isr
                        == self.facts.topics[topic.name].states[index].isr
                    ), key
            again = decide(self.facts, event)
            assert not any(change.operations for change in again.changes), again
        return outcome

    def read(self) -> ClusterFacts:
        facts = ClusterFacts()
        facts.topics = self.run(Catalog(self.other).topics())
        facts.deleting = set(self.run(Catalog(self.other).deletions()))
        return facts

    def check_orders(self, taken: Iterable[Change]) -> None:
        stored = self.read().topics
        for change in taken:
            for broker, order in change.orders:
                if isinstance(order, Lead | Follow):
                    what = order.replication
                    state = stored[change.topic].states[what.topic_partition.partition]
                    assert what.leader_epoch <= state.leader_epoch, "ordered, never written"
                    assert broker in what.replicas
                    assert isinstance(order, Lead) == (broker == what.leader)

    # --- what happens --------------------------------------------------------------------------

    @rule(name=st.sampled_from(NAMES), held=st.lists(replicas, min_size=1, max_size=3), fate=fates)
    def create(self, name: str, held: list[tuple[BrokerId, ...]], fate: str) -> None:
        self.ids += 1
        planned = Planned(name, tuple(held), {})
        topic = StoredTopic.of_plan(planned, self.ids.to_bytes(16, "big"))
        was_there = name in self.facts.topics
        outcome = self.happens(TopicsCreated([topic]), fate)
        refused = outcome.refused.get(TopicPartition(name, -1))
        assert (refused is ErrorCode.TOPIC_ALREADY_EXISTS) >= (was_there and self.sure)

    @precondition(lambda self: self.there())
    @rule(data=st.data(), fate=fates)
    def delete(self, data: st.DataObject, fate: str) -> None:
        topic, _ = self.drawn(data)
        self.happens(TopicsDeleted([topic.name]), fate)

    @precondition(lambda self: self.facts.deleting and self.sure)
    @rule()
    def deleted(self) -> None:
        for name in sorted(self.facts.deleting):
            self.run(self.catalog.end_deletion(name))
            self.facts.forget(name)

    @precondition(lambda self: self.there())
    @rule(data=st.data(), added=st.lists(replicas, min_size=1, max_size=2), fate=fates)
    def grow(self, data: st.DataObject, added: list[tuple[BrokerId, ...]], fate: str) -> None:
        topic, _ = self.drawn(data)
        if len(topic.node.partitions) < 5:
            self.happens(TopicGrown(topic.name, len(topic.node.partitions), added), fate)

    @rule(broker=brokers, data=st.data(), fate=fates)
    def join(self, broker: BrokerId, data: st.DataObject, fate: str) -> None:
        """A broker comes; some of its replicas may lack what was committed."""
        if broker in self.facts.brokers:
            return
        held = [
            TopicPartition(topic.name, index) for topic, index in self.facts.partitions_of([broker])
        ]
        doubted = {key: data.draw(ends, "doubt") for key in held if data.draw(st.booleans())}
        self.enter(broker, doubted)
        self.happens(BrokersJoined([broker]), fate)
        if self.sure:
            # A deletion whose write was lost is read again; its replicas are not taken from an ISR.
            for key in doubted:
                if key.topic in self.facts.deleting:
                    continue
                state = self.facts.topics[key.topic].states[key.partition]
                assert state.leader == -1 or broker not in state.isr or state.isr == (broker,)

    @rule(broker=brokers, fate=fates)
    def leave(self, broker: BrokerId, fate: str) -> None:
        if self.facts.brokers.pop(broker, None) is not None:
            self.facts.keep(set(self.facts.brokers))
            self.happens(BrokersLeft([broker]), fate)

    @precondition(lambda self: self.there())
    @rule(data=st.data(), fate=fates)
    def fail(self, data: st.DataObject, fate: str) -> None:
        topic, index = self.drawn(data)
        broker = data.draw(st.sampled_from(topic.node.partitions[index]))
        key = TopicPartition(topic.name, index)
        self.facts.failed.add((broker, key))
        self.happens(ReplicasFailed(broker, [key]), fate)

    @rule(broker=brokers, fate=fates)
    def shut_down(self, broker: BrokerId, fate: str) -> None:
        if broker in self.facts.brokers:
            self.facts.leaving.add(broker)
            self.happens(ShutdownAsked(broker), fate)

    @rule(broker=brokers, fate=fates)
    def suspect(self, broker: BrokerId, fate: str) -> None:
        """A broker seems to be dead: what it leads changes to members of the ISR only."""
        if broker not in self.facts.brokers:
            return
        before = {
            (topic.name, index): topic.states[index]
            for topic, index in self.facts.partitions_of([broker])
        }
        event = BrokerSuspected(broker, self.facts.brokers[broker].epoch)
        for change in self.happens(event, fate).taken:
            for index, state in change.states:
                former = before.get((change.topic, index))
                if former is not None and self.sure and fate == "written":
                    others = set(former.isr) - {broker}
                    key = TopicPartition(change.topic, index)
                    serving = {each for each in others if self.facts.serves(each, key)}
                    assert serving <= set(state.isr) <= others
                    assert state.leader in state.isr

    @precondition(lambda self: self.there())
    @rule(data=st.data(), kind=st.sampled_from(ElectionType), fate=fates)
    def elect(self, data: st.DataObject, kind: ElectionType, fate: str) -> None:
        topic, index = self.drawn(data)
        self.unclean_asked = kind is ElectionType.UNCLEAN
        self.happens(ElectionAsked(kind, [TopicPartition(topic.name, index)]), fate)

    @precondition(lambda self: self.there())
    @rule(data=st.data(), wanted=st.data(), fate=fates)
    def change_isr(self, data: st.DataObject, wanted: st.DataObject, fate: str) -> None:
        topic, index = self.drawn(data)
        state = topic.states[index]
        broker = self.facts.brokers.get(state.leader)
        if broker is None:
            return
        held = topic.node.partitions[index]
        isr = wanted.draw(st.lists(st.sampled_from(held), min_size=1, unique=True).map(tuple))
        key = TopicPartition(topic.name, index)
        asked = AskedIsr(key, state.leader_epoch, topic.versions[index], isr)
        outcome = self.happens(IsrAsked(broker.broker_id, broker.epoch, [asked]), fate)
        if state.leader not in isr and self.sure:
            assert key in outcome.refused
        self.advance(fate="written")

    @rule(fate=fates)
    def advance(self, fate: str) -> None:
        running = [
            TopicPartition(topic.name, index)
            for topic in self.there()
            for index in {**topic.node.adding, **topic.node.removing}
        ]
        for key in running:
            self.happens(ReassignmentAdvanced([key]), fate)

    @precondition(lambda self: self.there())
    @rule(data=st.data(), wanted=st.none() | replicas, fate=fates)
    def reassign(self, data: st.DataObject, wanted: tuple[BrokerId, ...] | None, fate: str) -> None:
        topic, index = self.drawn(data)
        key = TopicPartition(topic.name, index)
        event = ReassignmentAsked(key, wanted)
        running = index in topic.node.adding or index in topic.node.removing
        known = self.sure  # else the store may hold a reassignment that was lost on the way
        outcome = self.happens(event, fate)
        if wanted is None:
            if self.sure and not outcome.refused:
                node = self.facts.topics[topic.name].node
                assert running or not known
                assert index not in {**node.adding, **node.removing}
                self.moving.pop(key, None)
        elif self.sure and not outcome.refused:
            self.moving[key] = wanted

    @precondition(lambda self: self.moving)
    @rule(data=st.data())
    def arrive(self, data: st.DataObject) -> None:
        """All that are to hold the partition are in sync at last: nobody else holds it."""
        key = data.draw(st.sampled_from(sorted(self.moving)))
        target = self.moving.pop(key)
        topic = self.facts.topics.get(key.topic)
        if topic is None or topic.name in self.facts.deleting or not self.sure:
            return
        if not all(self.facts.may_lead(broker, key) for broker in target):
            return
        state = topic.states[key.partition]
        leader = self.facts.brokers.get(state.leader)
        if leader is None:
            return
        isr = tuple(dict.fromkeys((*state.isr, *target)))
        asked = AskedIsr(key, state.leader_epoch, topic.versions[key.partition], isr)
        outcome = self.happens(IsrAsked(leader.broker_id, leader.epoch, [asked]), "written")
        self.happens(ReassignmentAdvanced([key]), "written")
        if not outcome.refused:
            node = self.facts.topics[key.topic].node
            assert node.partitions[key.partition] == target
            assert key.partition not in {**node.adding, **node.removing}

    # --- what always holds ---------------------------------------------------------------------

    def check_states(self) -> None:
        read = self.read()
        now: dict[tuple[TopicPartition, bytes], PartitionState] = {}
        for topic in read.topics.values():
            for index, state in topic.states.items():
                key = (TopicPartition(topic.name, index), topic.topic_id)
                now[key] = state
                assert state.leader == -1 or state.leader in state.isr, key
                assert state.isr, f"{key}: the last of the ISR is gone"
                assert set(state.isr) <= set(topic.node.partitions[index]), key
                assert len(set(state.isr)) == len(state.isr), key
                former = self.before.get(key)
                if former is None:
                    continue
                assert state.leader_epoch >= former.leader_epoch, key
                if state.leader != former.leader:
                    assert state.leader_epoch > former.leader_epoch, key
                unclean = self.facts.unclean_default or self.unclean_asked
                if state.leader != former.leader and state.leader >= 0 and not unclean:
                    assert state.leader in former.isr, f"{key}: led by who may lack records"
        self.before = now
        self.unclean_asked = False


Cluster.TestCase.settings = settings(max_examples=20, stateful_step_count=30)
TestCluster = Cluster.TestCase
