"""Logs in which damaged batches were met: sound replicas lead, and health names the others."""

import asyncio
from functools import partial

import pytest

from headrace.broker.metadata_image import NO_LEADER, BrokerInfo, MetadataImage
from headrace.cluster.decisions import elections
from headrace.cluster.decisions.decide import decide
from headrace.cluster.decisions.events import ElectionAsked, ElectionType, ReplicasDamaged
from headrace.cluster.decisions.facts import ClusterFacts
from headrace.cluster.store.stored_doubts import Registered
from headrace.cluster.store.stored_topic import StoredTopic
from headrace.cluster.store.znodes import PartitionState, TopicNode
from headrace.cluster.topics.creation import NewTopic
from headrace.model.errors import CorruptLogError, ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition
from headrace.testing.sim.cluster import SimCluster
from tests.support.cluster.peer_kit import play, started
from tests.support.sim.cluster import until

ONE, TWO, THREE = (BrokerId(number) for number in (1, 2, 3))
T0 = TopicPartition("t", 0)


def _shows_damage(image: MetadataImage) -> bool:
    shown = image.topics["t"].partitions[0]
    return (shown.leader, shown.offline) == (TWO, (ONE,))


def facts_of(leader: BrokerId, isr: tuple[BrokerId, ...], *damaged: BrokerId) -> ClusterFacts:
    facts = ClusterFacts()
    node = TopicNode({0: (ONE, TWO, THREE)}, b"i" * 16)
    held = PartitionState(leader, LeaderEpoch(5), isr)
    facts.topics = {"t": StoredTopic("t", node, {}, {0: held}, 3, {0: 8})}
    facts.register(Registered(BrokerInfo(each, (), epoch=7), {}) for each in (ONE, TWO, THREE))
    facts.damaged = {(each, T0) for each in damaged}
    return facts


@pytest.mark.parametrize(
    ("isr", "damaged", "leader"),
    [
        ((ONE, TWO, THREE), (ONE,), TWO),
        ((ONE, TWO, THREE), (ONE, TWO), THREE),
        ((ONE, TWO, THREE), (ONE, TWO, THREE), None),
        ((ONE,), (ONE,), None),
        ((ONE, TWO), (TWO,), None),
    ],
)
def test_a_damaged_leader_is_replaced_by_the_first_sound_member(
    isr: tuple[BrokerId, ...], damaged: tuple[BrokerId, ...], leader: BrokerId | None
) -> None:
    facts = facts_of(ONE, isr, *damaged)
    (change,) = decide(facts, ReplicasDamaged(ONE, [T0, TopicPartition("gone", 0)])).changes
    assert change.shown == (() if leader else (0,))
    assert [state.leader for _, state in change.states] == ([leader] if leader else [])
    assert all(state.isr == isr for _, state in change.states), "it has all sound batches"


def test_a_damaged_replica_is_preferred_to_no_sound_one() -> None:
    preferred = ElectionAsked(ElectionType.PREFERRED, [T0])
    refused = decide(facts_of(TWO, (ONE, TWO), ONE), preferred).refused
    assert refused == {T0: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
    assert decide(facts_of(TWO, (ONE, TWO), ONE, TWO), preferred).changes
    facts = facts_of(THREE, (ONE, TWO, THREE), ONE)
    moved = elections.moved_from(facts, facts.topics["t"], 0, THREE)
    assert moved is not None
    assert moved.leader == TWO
    facts = facts_of(NO_LEADER, (ONE,), ONE)
    assert elections.elected(facts, facts.topics["t"], 0).leader == ONE, "before nobody leads"


def test_damage_is_forgotten_with_the_registration_and_with_the_topic() -> None:
    facts = facts_of(ONE, (ONE, TWO), ONE, TWO)
    facts.keep({ONE})
    assert facts.damaged == {(ONE, T0)}
    facts.forget("t")
    assert not facts.damaged


def test_a_leader_that_meets_damage_hands_over_and_every_broker_shows_it() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1, 2)
        await cluster.controller().create_topics([NewTopic("t", assignment={0: (ONE, TWO)})])
        first, second = cluster.brokers[1].broker, cluster.brokers[2].broker
        await until(lambda: ("t", 0) in second.followed)
        log = first.partitions["t", 0].log
        log.damage.unreadable(CorruptLogError("some batch"))
        await until(lambda: ("t", 0) in second.partitions)
        for server in cluster.brokers.values():
            await until(partial(_shows_damage, server.broker.image))
        await until(lambda: ("t", 0) in first.followed)
        await cluster.elect("t")
        assert ("t", 0) in second.partitions
        await cluster.stop(0)  # the next controller hears of it with its first orders
        await until(lambda: any(one.controller.is_controller for one in cluster.brokers.values()))
        facts = cluster.controller()._present_term().facts
        await until(lambda: facts.damaged == {(ONE, T0)})
        await cluster.stop(2)
        await until(lambda: ("t", 0) in first.partitions)
        await asyncio.sleep(0.1)
        assert first.partitions["t", 0].refusal is None, "it leads where there is no other"

    play(story, replica_lag_time_max_ms="600000")
