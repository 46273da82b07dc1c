"""Elections among replicas in doubt: none leads while a sound one may have more."""

import json

import pytest

from headrace.broker.metadata_image import NO_LEADER, BrokerInfo
from headrace.cluster.decisions import elections
from headrace.cluster.decisions.decide import decide
from headrace.cluster.decisions.events import (
    BrokersJoined,
    BrokersLeft,
    ElectionAsked,
    ElectionType,
)
from headrace.cluster.decisions.facts import ClusterFacts, Decision
from headrace.cluster.store import stored_doubts as doubts
from headrace.cluster.store import znodes
from headrace.cluster.store.stored_doubts import (
    LOST,
    OLDER,
    OUT_OF_SERVICE,
    REPAIRED,
    Doubt,
    Registered,
)
from headrace.cluster.store.stored_topic import StoredTopic
from headrace.cluster.store.znodes import PartitionState, TopicNode
from headrace.model.errors import ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch, Offset, TopicPartition

ZERO, ONE, TWO, THREE = (BrokerId(number) for number in range(4))
T0 = TopicPartition("t", 0)
STATE = znodes.state_path("t", 0)


def some(epoch: int, end: int) -> Doubt:
    return Doubt(LeaderEpoch(epoch), Offset(end))


def state(leader: BrokerId, *isr: BrokerId, epoch: int = 5) -> PartitionState:
    return PartitionState(leader, LeaderEpoch(epoch), isr)


def facts_of(
    held: PartitionState, known: dict[BrokerId, Doubt | None], *replicas: BrokerId
) -> ClusterFacts:
    """A topic of one partition; the brokers that are alive, and their doubts."""
    facts = ClusterFacts()
    node = TopicNode({0: replicas or (ONE, TWO, THREE)}, b"i" * 16)
    facts.topics = {"t": StoredTopic("t", node, {}, {0: held}, 3, {0: 8})}
    facts.register(
        Registered(BrokerInfo(broker, (), epoch=7), {} if doubt is None else {T0: doubt})
        for broker, doubt in known.items()
    )
    return facts


def after(decision: Decision) -> PartitionState:
    ((_, found),) = decision.changes[-1].states
    return found


def test_who_comes_back_in_doubt_leaves_the_isr_before_it_can_be_elected() -> None:
    facts = facts_of(state(ONE, ONE, TWO, THREE), {ONE: None, TWO: LOST, THREE: None})
    decision = decide(facts, BrokersJoined([TWO]))
    assert after(decision) == state(ONE, ONE, THREE, epoch=6)
    for change in decision.changes:
        facts.take(change)
    assert facts.doubts == {}, "who joins from now on belongs there"
    facts.keep({TWO, THREE})
    assert after(decide(facts, BrokersLeft([ONE]))) == state(THREE, THREE, epoch=7)


def test_a_leader_that_died_is_not_replaced_by_who_is_in_doubt() -> None:
    facts = facts_of(state(ONE, ONE, TWO, THREE), {TWO: some(9, 9), THREE: None})
    assert after(decide(facts, BrokersLeft([ONE]))) == state(THREE, THREE, epoch=6)
    facts = facts_of(state(ONE, ONE, TWO), {ONE: None, TWO: LOST})
    assert after(decide(facts, BrokersLeft([THREE]))) == state(ONE, ONE, epoch=6)


def test_a_leader_that_came_back_in_doubt_is_replaced_by_who_is_not() -> None:
    facts = facts_of(state(ONE, ONE, TWO), {ONE: some(5, 50), TWO: None})
    decision = decide(facts, BrokersJoined([ONE, TWO]))
    assert after(decision) == state(TWO, TWO, epoch=6)
    assert not decision.changes[-1].unclean


def test_the_isr_stays_while_one_of_it_is_away_that_may_have_all() -> None:
    facts = facts_of(state(NO_LEADER, ONE, TWO), {ONE: some(5, 50), THREE: None})
    decision = decide(facts, BrokersJoined([ONE]))
    assert not any(change.operations for change in decision.changes)
    assert (ONE, T0) in facts.doubts
    for change in decision.changes:
        facts.take(change)
    facts.register([Registered(BrokerInfo(TWO, ()), {})])
    assert after(decide(facts, BrokersJoined([TWO]))) == state(TWO, TWO, epoch=6)


@pytest.mark.parametrize(
    ("known", "leader"),
    [
        ({ONE: some(5, 50), TWO: some(5, 51)}, TWO),
        ({ONE: some(6, 10), TWO: some(5, 51)}, ONE),
        ({ONE: some(5, 50), TWO: some(5, 50)}, ONE),
        ({ONE: LOST, TWO: some(-1, 0)}, TWO),
        ({ONE: LOST, TWO: LOST}, None),
        ({ONE: some(5, 50)}, None),
    ],
)
def test_where_all_of_the_isr_are_back_in_doubt_the_one_with_most_leads(
    known: dict[BrokerId, Doubt | None], leader: BrokerId | None
) -> None:
    facts = facts_of(state(NO_LEADER, ONE, TWO), {THREE: None, **known})
    decision = decide(facts, BrokersJoined(list(known)))
    if leader is None:
        assert not any(change.operations for change in decision.changes)
        return
    assert after(decision) == state(leader, leader, epoch=6)._replace(recovering=True)
    assert decision.changes[-1].unclean
    for change in decision.changes:
        facts.take(change)
    assert not any(change.operations for change in decide(facts, BrokersJoined([ONE])).changes)


def test_the_last_of_the_isr_that_is_lost_stays_in_it_and_is_elected_by_nobody() -> None:
    facts = facts_of(state(NO_LEADER, ONE), {ONE: LOST})
    assert elections.elected(facts, facts.topics["t"], 0).isr == (ONE,)
    unclean = ElectionAsked(ElectionType.UNCLEAN, [T0])
    assert decide(facts, unclean).refused == {T0: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}
    facts = facts_of(state(NO_LEADER, ONE, TWO), {ONE: some(5, 5)})
    assert after(decide(facts, unclean)).leader == ONE, "earlier, if somebody asks for it"


def by_hand(end: int, cause: str = OLDER) -> Doubt:
    return some(5, end)._replace(cause=cause)


@pytest.mark.parametrize("cause", [OLDER, REPAIRED])
def test_a_log_changed_by_hand_leads_by_itself_only_where_no_other_could_have_more(
    cause: str,
) -> None:
    """All of the ISR are back and in doubt: those outside of it may have what was lost."""
    known = {ONE: by_hand(50, cause), TWO: some(5, 40)}
    facts = facts_of(state(NO_LEADER, ONE, TWO), {**known, THREE: None})
    assert not any(change.operations for change in decide(facts, BrokersJoined([ONE])).changes)
    facts = facts_of(state(NO_LEADER, ONE, TWO), {**known}, ONE, TWO)
    decision = decide(facts, BrokersJoined([ONE]))
    assert after(decision) == state(ONE, ONE, epoch=6)._replace(recovering=True)
    assert decision.changes[-1].unclean


def test_where_an_election_is_asked_for_a_log_changed_by_hand_comes_last() -> None:
    unclean = ElectionAsked(ElectionType.UNCLEAN, [T0])
    facts = facts_of(state(NO_LEADER, ONE), {ONE: by_hand(50), TWO: None, THREE: None})
    assert after(decide(facts, unclean)).leader == TWO
    facts = facts_of(state(NO_LEADER, ONE), {ONE: by_hand(50)})
    assert after(decide(facts, unclean)).leader == ONE


def test_partition_lost_on_all_replicas_starts_empty_on_unclean_election() -> None:
    """As docs/cluster.md has it of elect-leaders --unclean; a partition of one replica, too."""
    unclean = ElectionAsked(ElectionType.UNCLEAN, [T0])
    facts = facts_of(state(NO_LEADER, TWO), {TWO: LOST}, TWO)
    assert not any(change.operations for change in decide(facts, BrokersJoined([TWO])).changes)
    decision = decide(facts, unclean)
    assert after(decision) == state(TWO, TWO, epoch=6)._replace(recovering=True)
    assert decision.changes[-1].unclean
    facts = facts_of(state(NO_LEADER, TWO), {ONE: LOST, TWO: LOST}, ONE, TWO)
    assert after(decide(facts, unclean)).leader == ONE
    for other in ({}, {ONE: OUT_OF_SERVICE}, {ONE: some(1, 1)}):
        facts = facts_of(state(NO_LEADER, TWO), {**other, TWO: LOST}, ONE, TWO)
        assert after_or_none(decide(facts, unclean)) != TWO, "another may have records still"


def after_or_none(decision: Decision) -> BrokerId | None:
    return after(decision).leader if decision.changes else None


def test_two_members_that_return_in_doubt_at_once_both_leave_the_isr() -> None:
    facts = facts_of(state(ONE, ONE, TWO, THREE), {ONE: None, TWO: some(4, 4), THREE: by_hand(3)})
    decision = decide(facts, BrokersJoined([TWO, THREE]))
    assert after(decision) == state(ONE, ONE, epoch=6)


def test_a_member_in_doubt_is_nobodys_heir_and_not_given_leadership_back() -> None:
    facts = facts_of(state(THREE, ONE, TWO, THREE), {ONE: by_hand(3), TWO: None, THREE: None})
    topic = facts.topics["t"]
    assert elections.preferred(facts, topic, 0) is None
    moved = elections.moved_from(facts, topic, 0, THREE)
    assert moved is not None
    assert moved.leader == TWO


def test_an_election_without_doubts_ends_the_recovery_where_all_are_in_sync() -> None:
    facts = facts_of(state(NO_LEADER, ONE)._replace(recovering=True), {ONE: None}, ONE)
    assert after(decide(facts, BrokersJoined([ONE]))) == state(ONE, ONE, epoch=6)
    facts = facts_of(state(NO_LEADER, ONE)._replace(recovering=True), {ONE: None}, ONE, TWO)
    assert after(decide(facts, BrokersJoined([ONE]))).recovering


def test_doubts_stand_in_a_registration_where_other_readers_pass_over_them() -> None:
    known = {T0: LOST, TopicPartition("t", 12): some(3, 99), TopicPartition("u", 0): some(-1, 0)}
    value = znodes.encode_registration(znodes.Registration((), doubts=known))
    assert json.loads(value)["doubtful_replicas"] == {
        "t": {"0": None, "12": [3, 99]}, "u": {"0": [-1, 0]},
    }  # fmt: skip
    assert znodes.decode_doubts("/", value) == known
    assert b"doubtful" not in znodes.encode_registration(znodes.Registration(()))
    for bad in (b'{"doubtful_replicas": {"t": {"x": null}}}', b'{"doubtful_replicas": {"t": 1}}'):
        with pytest.raises(znodes.BadPayload):
            znodes.decode_doubts("/", bad)
    assert doubts.decode({}) == {}


# --- brokers -------------------------------------------------------------------------------------
