"""What the controller decides, case by case: states, operations with their versions, orders."""

import pytest

from headrace.broker.metadata_image import NO_LEADER, BrokerInfo
from headrace.cluster.decisions import changes, elections
from headrace.cluster.decisions.decide import decide
from headrace.cluster.decisions.events import (
    BrokersJoined,
    BrokersLeft,
    BrokerSuspected,
    ElectionAsked,
    ElectionType,
    IsrAsked,
    ReassignmentAsked,
    ReplicasFailed,
    ShutdownAsked,
    TopicGrown,
    TopicsCreated,
    TopicsDeleted,
)
from headrace.cluster.decisions.facts import Change, ClusterFacts, Decision
from headrace.cluster.decisions.orders import Follow, Lead, Stop
from headrace.cluster.store.stored_topic import NEVER_LED, StoredTopic
from headrace.cluster.store.znodes import PartitionState, TopicNode
from headrace.cluster.topics.creation import Planned
from headrace.model.errors import ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition
from headrace.ports.store import Create, Set
from headrace.replication.controller_calls import AskedIsr

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


def after(decision: Decision) -> PartitionState:
    ((index, found),) = only(decision).states
    assert index == 0
    return found


def told(change: Change) -> dict[BrokerId, str]:
    """Who is told to do what."""
    return {broker: type(order).__name__ for broker, order in change.orders}


def test_a_leader_that_left_is_replaced_by_the_first_of_the_assignment_in_sync() -> None:
    led = topic(state(ONE, ONE, THREE, TWO))
    decision = decide(facts_of(led, alive=(TWO, THREE)), BrokersLeft([ONE]))
    assert after(decision) == state(TWO, THREE, TWO, epoch=6)
    change = only(decision)
    assert told(change) == {ONE: "Follow", TWO: "Lead", THREE: "Follow"}
    (operation,) = change.operations
    assert isinstance(operation, Set)
    assert operation.version == 8
    (lead,) = (order for _, order in change.orders if isinstance(order, Lead))
    found = lead.replication
    assert (found.leader, found.leader_epoch, found.partition_epoch) == (TWO, 6, 9)
    assert (found.isr, found.replicas, found.is_new) == ((THREE, TWO), (ONE, TWO, THREE), False)


def test_a_follower_that_left_is_out_of_the_isr_and_the_last_of_it_stays() -> None:
    led = topic(state(ONE, ONE, TWO))
    assert after(decide(facts_of(led), BrokersLeft([TWO]))) == state(ONE, ONE, epoch=6)
    assert decide(facts_of(led), BrokersLeft([THREE])).changes == ()
    last = topic(state(ONE, ONE))
    found = after(decide(facts_of(last, alive=(TWO,)), BrokersLeft([ONE])))
    assert found == state(NO_LEADER, ONE, epoch=6)
    nobody = topic(state(NO_LEADER, ONE))
    assert decide(facts_of(nobody, alive=(TWO,)), BrokersLeft([ONE])).changes == ()


def test_who_is_not_in_sync_leads_only_where_that_is_wanted() -> None:
    led = topic(state(ONE, ONE))
    facts = facts_of(led, alive=(TWO, THREE))
    facts.unclean_default = True
    decision = decide(facts, BrokersLeft([ONE]))
    assert after(decision) == state(TWO, TWO, epoch=6, recovering=True)
    assert only(decision).unclean
    led.config = {"unclean.leader.election.enable": " False"}
    assert after(decide(facts, BrokersLeft([ONE]))).leader == NO_LEADER
    facts.unclean_default = False
    led.config = {"unclean.leader.election.enable": "TRUE "}
    assert after(decide(facts, BrokersLeft([ONE]))).leader == TWO
    assert elections.elected(facts, led, 0, unclean=False).leader == NO_LEADER


def test_who_comes_leads_what_nobody_leads_and_is_reminded_of_the_rest() -> None:
    led, orphan = topic(state(ONE, ONE)), topic(state(NO_LEADER, TWO, THREE), name="orphan")
    decision = decide(facts_of(led, orphan, alive=(ONE, THREE)), BrokersJoined([THREE]))
    reminded, elected = decision.changes
    assert (reminded.operations, reminded.states, reminded.shown) == ((), (), (0,))
    assert told(reminded) == {THREE: "Follow"}
    assert elected.states == ((0, state(THREE, THREE, epoch=6)),)
    assert told(elected) == {ONE: "Follow", TWO: "Follow", THREE: "Lead"}


@pytest.mark.parametrize("logs_made", [False, True])
def test_who_comes_is_reminded_of_all_partitions_of_a_topic_at_once(logs_made: bool) -> None:
    led = topic(state(ONE, ONE))
    led.node = TopicNode({0: (ONE, TWO, THREE), 1: (THREE, ONE)}, b"i" * 16)
    led.states[1], led.versions[1] = state(THREE, THREE), 2
    decision = decide(facts_of(led), BrokersJoined([ONE], logs_made=logs_made))
    assert only(decision).shown == (0, 1)
    orders = [order for _, order in only(decision).orders if isinstance(order, Lead | Follow)]
    assert [
        (order.replication.topic_partition.partition, order.replication.is_new) for order in orders
    ] == [(0, logs_made), (1, logs_made)]


def test_what_nobody_can_lead_yet_stays_as_it_is_and_is_told() -> None:
    orphan = topic(state(NO_LEADER, TWO))
    decision = decide(facts_of(orphan, alive=(THREE,)), BrokersJoined([THREE]))
    assert only(decision).states == ()
    assert told(only(decision)) == {THREE: "Follow"}


def test_a_partition_nobody_led_is_led_by_the_first_that_can_with_all_that_are_here() -> None:
    facts = facts_of(topic(NEVER_LED), alive=(TWO, THREE))
    decision = decide(facts, BrokersJoined([TWO, THREE]))
    assert after(decision) == state(TWO, TWO, THREE, epoch=0)
    (operation,) = only(decision).operations
    assert isinstance(operation, Create)
    orders = [order for _, order in only(decision).orders if isinstance(order, Lead | Follow)]
    assert [(one.replication.partition_epoch, one.replication.is_new) for one in orders] == [
        (0, True)
    ] * 3


def test_partition_without_records_is_led_by_a_broker_that_is_not_suspected() -> None:
    facts = facts_of(topic(NEVER_LED))
    facts.suspects = {ONE: BROKER_EPOCH, TWO: BROKER_EPOCH - 1}
    decision = decide(facts, BrokersJoined([ONE, TWO, THREE]))
    assert after(decision) == state(TWO, TWO, THREE, epoch=0)


def test_suspected_broker_is_elected_if_no_other_may_lead() -> None:
    facts = facts_of(topic(NEVER_LED, ONE), topic(state(TWO, TWO, ONE), ONE, TWO, name="u"))
    facts.suspects = {ONE: BROKER_EPOCH}
    facts.brokers.pop(TWO)
    found = [
        *decide(facts, BrokersJoined([ONE])).changes,
        *decide(facts, BrokersLeft([TWO])).changes,
    ]
    states = {change.topic: change.states[0][1] for change in found if change.states}
    assert states == {"t": state(ONE, ONE, epoch=0), "u": state(ONE, ONE, epoch=6)}


def test_a_failed_replica_neither_leads_nor_stays_in_sync() -> None:
    led = topic(state(ONE, ONE, TWO, THREE))
    facts = facts_of(led)
    facts.failed = {(ONE, T0)}
    event = ReplicasFailed(ONE, [T0, TopicPartition("gone", 0)])
    assert after(decide(facts, event)) == state(TWO, TWO, THREE, epoch=6)
    facts.deleting = {"t"}
    assert decide(facts, event).changes == ()


def test_who_leaves_hands_over_what_another_can_lead_and_is_refused_the_rest() -> None:
    facts = facts_of(
        topic(state(ONE, ONE, THREE, TWO)),
        topic(state(TWO, ONE, TWO), name="follows"),
        topic(state(ONE, ONE), name="alone"),
        topic(state(ONE, ONE, FOUR), ONE, FOUR, name="dead"),
        topic(state(TWO, TWO), name="outside"),
    )
    facts.leaving = {ONE}
    decision = decide(facts, ShutdownAsked(ONE))
    assert {change.topic: change.states[0][1] for change in decision.changes} == {
        "t": state(TWO, THREE, TWO, epoch=6),
        "follows": state(TWO, TWO, epoch=6),
    }
    refused = E.NOT_ENOUGH_REPLICAS
    assert decision.refused == {
        TopicPartition("alone", 0): refused,
        TopicPartition("dead", 0): refused,
    }


def test_suspected_broker_loses_what_another_member_of_the_isr_can_lead() -> None:
    unclean = topic(state(ONE, ONE), name="alone")
    unclean.config = {"unclean.leader.election.enable": "true"}
    facts = facts_of(
        topic(state(ONE, ONE, THREE, TWO)),
        topic(state(TWO, ONE, TWO), name="follows"),
        unclean,
        topic(state(ONE, ONE, FOUR), ONE, FOUR, name="dead"),
        topic(state(TWO, TWO), name="outside"),
    )
    decision = decide(facts, BrokerSuspected(ONE, BROKER_EPOCH))
    assert {change.topic: change.states[0][1] for change in decision.changes} == {
        "t": state(TWO, THREE, TWO, epoch=6),
        "follows": state(TWO, TWO, epoch=6),
    }
    assert decision.refused == {}


@pytest.mark.parametrize("broker_epoch", [-1, BROKER_EPOCH - 1, BROKER_EPOCH + 1])
def test_suspicion_of_another_registration_changes_nothing(broker_epoch: int) -> None:
    facts = facts_of(topic(state(ONE, ONE, THREE, TWO)))
    assert decide(facts, BrokerSuspected(ONE, broker_epoch)) == Decision()
    assert decide(facts, BrokerSuspected(FOUR, BROKER_EPOCH)) == Decision()


def elect(facts: ClusterFacts, kind: ElectionType, partition: TopicPartition = T0) -> Decision:
    return decide(facts, ElectionAsked(kind, [partition]))


def test_the_preferred_leader_is_elected_where_it_can_lead_and_does_not() -> None:
    preferred = ElectionType.PREFERRED
    facts = facts_of(topic(state(TWO, TWO, ONE)))
    assert after(elect(facts, preferred)) == state(ONE, TWO, ONE, epoch=6)
    for held, alive, code in (
        (state(ONE, ONE, TWO), (ONE, TWO), E.ELECTION_NOT_NEEDED),
        (state(TWO, TWO), (ONE, TWO), E.PREFERRED_LEADER_NOT_AVAILABLE),
        (state(TWO, TWO, ONE), (TWO,), E.PREFERRED_LEADER_NOT_AVAILABLE),
    ):
        decision = elect(facts_of(topic(held), alive=alive), preferred)
        assert (decision.changes, decision.refused) == ((), {T0: code})
    for unknown in (TopicPartition("u", 0), TopicPartition("t", 1)):
        refused = elect(facts, preferred, unknown).refused
        assert refused == {unknown: E.UNKNOWN_TOPIC_OR_PARTITION}


def test_an_unclean_election_is_for_partitions_without_a_leader_only() -> None:
    unclean = ElectionType.UNCLEAN
    facts = facts_of(topic(state(NO_LEADER, ONE)), alive=(TWO, THREE))
    decision = elect(facts, unclean)
    assert after(decision) == state(TWO, TWO, epoch=6, recovering=True)
    assert only(decision).unclean
    orders = [order for _, order in only(decision).orders if isinstance(order, Lead | Follow)]
    assert [order.replication.recovering for order in orders] == [True] * 3
    facts = facts_of(topic(state(TWO, TWO)))
    assert elect(facts, unclean).refused == {T0: E.ELECTION_NOT_NEEDED}
    facts = facts_of(topic(state(NO_LEADER, ONE)), alive=(FOUR,))
    assert elect(facts, unclean).refused == {T0: E.ELIGIBLE_LEADERS_NOT_AVAILABLE}


def asked(
    *isr: BrokerId,
    broker: BrokerId = ONE,
    leader_epoch: int = 5,
    version: int = 8,
    partition: TopicPartition = T0,
    broker_epoch: int = BROKER_EPOCH,
) -> IsrAsked:
    wanted = AskedIsr(partition, LeaderEpoch(leader_epoch), version, isr)
    return IsrAsked(broker, broker_epoch, [wanted])


def test_a_leaders_isr_is_written_under_its_epoch_and_told_to_nobody_else() -> None:
    decision = decide(facts_of(topic(state(ONE, ONE, TWO, THREE))), asked(ONE, TWO))
    change = only(decision)
    assert after(decision) == state(ONE, ONE, TWO)
    assert change.orders == ()
    (operation,) = change.operations
    assert isinstance(operation, Set)
    assert operation.version == 8


def test_a_member_that_has_restarted_since_its_leader_saw_it_does_not_join() -> None:
    """What it had then it may have lost (KIP-903)."""
    facts = facts_of(topic(state(ONE, ONE)))
    for epochs, code in (
        ((BROKER_EPOCH, BROKER_EPOCH), None),
        ((-1, -1), None),
        ((), None),
        ((BROKER_EPOCH, BROKER_EPOCH - 1), E.INELIGIBLE_REPLICA),
        ((BROKER_EPOCH, BROKER_EPOCH + 1), E.INELIGIBLE_REPLICA),
    ):
        wanted = AskedIsr(T0, LeaderEpoch(5), 8, (ONE, TWO), epochs)
        refused = decide(facts, IsrAsked(ONE, BROKER_EPOCH, [wanted])).refused
        assert refused == ({} if code is None else {T0: code})


def test_isrs_that_are_refused() -> None:
    facts = facts_of(topic(state(ONE, ONE, TWO)))
    facts.failed = {(THREE, T0)}
    strange = TopicPartition("u", 0)
    for event, code in (
        (asked(ONE, broker_epoch=76), E.STALE_BROKER_EPOCH),
        (asked(ONE, broker=FOUR), E.STALE_BROKER_EPOCH),
        (asked(ONE, partition=strange), E.UNKNOWN_TOPIC_OR_PARTITION),
        (asked(ONE, leader_epoch=6), E.NOT_CONTROLLER),
        (asked(ONE, version=9), E.NOT_CONTROLLER),
        (asked(ONE, leader_epoch=4), E.FENCED_LEADER_EPOCH),
        (asked(ONE, broker=TWO), E.INVALID_REQUEST),
        (asked(ONE, version=7), E.INVALID_UPDATE_VERSION),
        (asked(ONE, TWO, version=6), E.INVALID_UPDATE_VERSION),
        (asked(TWO), E.INVALID_REQUEST),
        (asked(ONE, FOUR), E.INVALID_REQUEST),
        (asked(ONE, TWO, THREE), E.INELIGIBLE_REPLICA),
    ):
        decision = decide(facts, event)
        assert list(decision.refused.values()) == [code], event
        assert not any(change.operations or change.states for change in decision.changes)


def test_topics_are_deleted_once_and_their_replicas_stopped() -> None:
    facts = facts_of(topic(state(ONE, ONE, TWO)), topic(state(ONE, ONE), name="going"))
    facts.deleting = {"going"}
    decision = decide(facts, TopicsDeleted(["t", "going", "who"]))
    (change,) = decision.changes
    assert (change.topic, change.deleted) == ("t", True)
    assert told(change) == {ONE: "Stop", TWO: "Stop", THREE: "Stop"}
    stops = [order for _, order in change.orders if isinstance(order, Stop)]
    assert all((stop.leader_epoch, stop.delete) == (-2, True) for stop in stops)
    assert [type(operation) for operation in change.operations] == [Create]
    assert decision.refused == {TopicPartition("who", -1): E.UNKNOWN_TOPIC_OR_PARTITION}
    assert changes.deletion(facts.topics["t"], marked=True).operations == ()


def test_a_topic_grows_behind_the_partitions_it_has_unless_it_has_grown_meanwhile() -> None:
    facts = facts_of(topic(state(ONE, ONE), ONE))
    change = only(decide(facts, TopicGrown("t", 1, [(TWO, THREE), (THREE,)])))
    assert change.node is not None
    assert change.node.partitions == {0: (ONE,), 1: (TWO, THREE), 2: (THREE,)}
    assert dict(change.states) == {
        1: state(TWO, TWO, THREE, epoch=0),
        2: state(THREE, THREE, epoch=0),
    }
    assert (change.grown, len(change.operations)) == (True, 5)
    assert isinstance(change.operations[0], Set)
    assert change.operations[0].version == 3
    assert [(b, type(o).__name__) for b, o in change.orders] == [
        (TWO, "Lead"),
        (THREE, "Follow"),
        (THREE, "Lead"),
    ]
    refused = decide(facts, TopicGrown("t", 2, [(ONE,)])).refused
    assert refused == {TopicPartition("t", -1): E.INVALID_PARTITIONS}
    facts.deleting = {"t"}
    for name in ("t", "who"):
        refused = decide(facts, TopicGrown(name, 1, [(ONE,)])).refused
        assert refused == {TopicPartition(name, -1): E.UNKNOWN_TOPIC_OR_PARTITION}


def test_a_name_that_is_taken_is_refused_and_the_others_are_made() -> None:
    made = StoredTopic.of_plan(Planned("new", ((ONE, TWO), (TWO,)), {"k": "v"}), b"n" * 16)
    taken = StoredTopic.of_plan(Planned("t", ((ONE,),), {}), b"t" * 16)
    decision = decide(facts_of(topic(state(ONE, ONE))), TopicsCreated([taken, made]))
    (change,) = decision.changes
    assert decision.refused == {TopicPartition("t", -1): E.TOPIC_ALREADY_EXISTS}
    assert change.created == made
    assert made.states == {0: state(ONE, ONE, TWO, epoch=0), 1: state(TWO, TWO, epoch=0)}
    assert made.versions == {0: 0, 1: 0}
    assert (made.version, len(change.operations)) == (0, 7)
    assert all(isinstance(operation, Create) for operation in change.operations)
    assert all(
        (order.replication.is_new, order.replication.partition_epoch) == (True, 0)
        for _, order in change.orders
        if isinstance(order, Lead | Follow)
    )


def reassign(facts: ClusterFacts, *target: BrokerId) -> Decision:
    return decide(facts, ReassignmentAsked(T0, target))
