"""Decisions on reassignments: replicas are added, awaited and removed."""

from headrace.broker.metadata_image import BrokerInfo
from headrace.cluster.decisions import reassignment
from headrace.cluster.decisions.decide import decide
from headrace.cluster.decisions.events import (
    ReassignmentAdvanced,
    ReassignmentAsked,
)
from headrace.cluster.decisions.facts import Change, ClusterFacts, Decision
from headrace.cluster.decisions.orders import Stop
from headrace.cluster.store.stored_topic import NEVER_LED, StoredTopic
from headrace.cluster.store.znodes import PartitionState, TopicNode
from headrace.model.errors import ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition

E = ErrorCode
ONE, TWO, THREE, FOUR = (BrokerId(number) for number in (1, 2, 3, 4))
T0 = TopicPartition("t", 0)
BROKER_EPOCH = 77


def state(
    leader: BrokerId, *isr: BrokerId, epoch: int = 5, recovering: bool = False
) -> PartitionState:
    return PartitionState(leader, LeaderEpoch(epoch), isr, recovering=recovering)


def topic(held: PartitionState, *replicas: BrokerId, name: str = "t") -> StoredTopic:
    """A topic of one partition, read at version 3, its state at version 8."""
    node = TopicNode({0: replicas or (ONE, TWO, THREE)}, b"i" * 16)
    states = {} if held is NEVER_LED else {0: held}
    return StoredTopic(name, node, {}, states, 3, dict.fromkeys(states, 8))


def facts_of(*topics: StoredTopic, alive: tuple[BrokerId, ...] = (ONE, TWO, THREE)) -> ClusterFacts:
    facts = ClusterFacts()
    facts.controller_epoch = 9
    facts.brokers = {broker: BrokerInfo(broker, (), epoch=BROKER_EPOCH) for broker in alive}
    facts.topics = {one.name: one for one in topics}
    return facts


def only(decision: Decision) -> Change:
    (change,) = decision.changes
    assert decision.refused == {}
    return change


def told(change: Change) -> dict[BrokerId, str]:
    """Who is told to do what."""
    return {broker: type(order).__name__ for broker, order in change.orders}


def reassign(facts: ClusterFacts, *target: BrokerId) -> Decision:
    return decide(facts, ReassignmentAsked(T0, target))


def test_a_reassignment_names_all_replicas_until_those_that_come_are_in_sync() -> None:
    facts = facts_of(topic(state(ONE, ONE, TWO), ONE, TWO), alive=(ONE, TWO, THREE, FOUR))
    change = only(reassign(facts, THREE, TWO))
    assert change.node is not None
    assert change.node.partitions[0] == (THREE, TWO, ONE)
    assert (change.node.adding, change.node.removing) == ({0: (THREE,)}, {0: (ONE,)})
    assert change.states == ((0, state(ONE, ONE, TWO, epoch=6)),)
    assert told(change) == {ONE: "Lead", TWO: "Follow", THREE: "Follow"}
    facts.take(change)
    assert reassign(facts, THREE, TWO) == Decision()
    assert decide(facts, ReassignmentAdvanced([T0])).changes == ()
    moving = facts.topics["t"]
    moving.states[0] = state(ONE, ONE, TWO, THREE, epoch=6)
    done = only(decide(facts, ReassignmentAdvanced([T0, T0, TopicPartition("u", 0)])))
    assert done.node is not None
    assert done.node.partitions[0] == (THREE, TWO)
    assert not reassignment.runs(done.node, 0)
    assert done.states == ((0, state(THREE, TWO, THREE, epoch=7)),)
    assert told(done) == {THREE: "Lead", TWO: "Follow", ONE: "Stop"}
    stopped = done.orders[-1][1]
    assert isinstance(stopped, Stop)
    assert (stopped.leader_epoch, stopped.delete) == (7, True)


def test_another_target_during_a_reassignment_begins_from_the_original_replicas() -> None:
    facts = facts_of(topic(state(ONE, ONE, TWO), ONE, TWO), alive=(ONE, TWO, THREE, FOUR))
    facts.take(only(reassign(facts, THREE, TWO)))
    change = only(reassign(facts, FOUR, TWO))
    assert change.node is not None
    assert change.node.partitions[0] == (FOUR, TWO, ONE)
    assert (change.node.adding, change.node.removing) == ({0: (FOUR,)}, {0: (ONE,)})
    assert told(change) == {ONE: "Lead", TWO: "Follow", FOUR: "Follow", THREE: "Stop"}
    facts.take(change)
    off = only(decide(facts, ReassignmentAsked(T0, None)))
    assert off.node is not None
    assert sorted(off.node.partitions[0]) == [ONE, TWO]
    assert told(off)[FOUR] == "Stop"


def test_a_reassignment_is_called_off_to_where_it_began() -> None:
    facts = facts_of(topic(state(ONE, ONE, TWO), ONE, TWO))
    off = ReassignmentAsked(T0, None)
    assert decide(facts, off).refused == {T0: E.NO_REASSIGNMENT_IN_PROGRESS}
    facts.take(only(reassign(facts, THREE, TWO)))
    change = only(decide(facts, off))
    assert change.node is not None
    assert sorted(change.node.partitions[0]) == [ONE, TWO]
    assert (change.node.adding, change.node.removing) == ({}, {})
    assert told(change)[THREE] == "Stop"


def test_reassignments_that_are_refused_or_done_at_once() -> None:
    facts = facts_of(topic(state(ONE, ONE, TWO), ONE, TWO))
    for target in ((), (ONE, ONE), (ONE, FOUR)):
        assert reassign(facts, *target).refused == {T0: E.INVALID_REPLICA_ASSIGNMENT}
    assert reassign(facts, ONE, TWO) == Decision()
    at_once = only(reassign(facts, TWO))
    assert at_once.node is not None
    assert (at_once.node.partitions[0], at_once.node.removing) == ((TWO,), {})
    assert at_once.states == ((0, state(TWO, TWO, epoch=6)),)
    unknown = TopicPartition("u", 0)
    refused = decide(facts, ReassignmentAsked(unknown, (ONE,))).refused
    assert refused == {unknown: E.UNKNOWN_TOPIC_OR_PARTITION}
