"""Leadership goes back to the preferred replicas where a broker has lost too much of it."""

import asyncio

import pytest

from headrace.broker.metadata_image import NO_LEADER, BrokerInfo
from headrace.cluster.controller.leader_balance import FIRST_LOOK_SECONDS, to_give_back
from headrace.cluster.decisions.events import ElectionAsked, ElectionType
from headrace.cluster.decisions.facts import ClusterFacts
from headrace.cluster.store.stored_topic import StoredTopic
from headrace.cluster.store.znodes import PartitionState, TopicNode
from headrace.cluster.topics.creation import NewTopic
from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition
from headrace.testing.sim.cluster import SimCluster
from tests.support.cluster.peer_kit import play, started
from tests.support.sim.cluster import until

ZERO, ONE, TWO = (BrokerId(number) for number in range(3))


def facts_of(*leaders: BrokerId, isr: tuple[BrokerId, ...] = (ONE, TWO)) -> ClusterFacts:
    """A topic whose partitions all name broker 1 first."""
    facts = ClusterFacts()
    facts.brokers = {number: BrokerInfo(number, ()) for number in (ZERO, ONE, TWO)}
    node = TopicNode(dict.fromkeys(range(len(leaders)), (ONE, TWO)), b"i" * 16)
    states = {
        index: PartitionState(leader, LeaderEpoch(3), isr) for index, leader in enumerate(leaders)
    }
    facts.topics = {"t": StoredTopic("t", node, {}, states, 0, dict.fromkeys(states, 4))}
    return facts


def indexes(found: list[TopicPartition]) -> list[int]:
    return [partition.partition for partition in found]


@pytest.mark.parametrize(
    ("lost", "percentage", "given"),
    [(1, 10, []), (2, 10, [0, 1]), (1, 9, [0]), (10, 100, []), (1, 0, [0]), (0, 0, [])],
)
def test_what_a_broker_has_lost_is_given_back_once_it_is_more_than_so_many_hundredths(
    lost: int, percentage: float, given: list[int]
) -> None:
    facts = facts_of(*[TWO] * lost, *[ONE] * (10 - lost))
    assert indexes(to_give_back(facts, percentage)) == given


def test_a_partition_without_a_leader_is_lost_too() -> None:
    assert indexes(to_give_back(facts_of(ONE, NO_LEADER), 10)) == [1]


def test_nothing_is_given_to_who_cannot_lead_it() -> None:
    assert to_give_back(facts_of(TWO, isr=(TWO,)), 10) == []
    gone = facts_of(TWO)
    del gone.brokers[ONE]
    assert to_give_back(gone, 10) == []
    leaving = facts_of(TWO)
    leaving.leaving = {ONE}
    assert to_give_back(leaving, 10) == []


def test_topics_that_go_and_partitions_that_move_stay_with_their_leader() -> None:
    going = facts_of(TWO)
    going.deleting = {"t"}
    assert to_give_back(going, 10) == []
    moving = facts_of(TWO, TWO)
    topic = moving.topics["t"]
    topic.node = topic.node._replace(adding={0: (ZERO,)})
    assert indexes(to_give_back(moving, 10)) == [1]


async def away(cluster: SimCluster) -> None:
    """Have broker 2 lead what names broker 1 first, though that is in sync again."""
    await started(cluster, 0, 1, 2)
    await asyncio.sleep(2 * FIRST_LOOK_SECONDS)
    wanted = NewTopic("t", assignment={0: (ONE, TWO)})
    await cluster.controller().create_topics([wanted])
    former = cluster.brokers[1]
    among = former.cluster_links
    assert among is not None
    await among.leave()
    broker = cluster.brokers[2].broker
    await until(lambda: ("t", 0) in broker.partitions)
    await cluster.stop(1)
    await started(cluster, 1)
    led = broker.partition("t", 0)
    await until(lambda: led.role.term is not None and ONE in led.role.term.in_sync)


def test_the_controller_looks_for_it_every_so_often() -> None:
    async def story(cluster: SimCluster) -> None:
        await away(cluster)
        image = cluster.brokers[0].broker.image
        assert image.topics["t"].partitions[0].leader == TWO
        await asyncio.sleep(40)
        assert image.topics["t"].partitions[0].leader == ONE
        assert cluster.brokers[1].broker.partition("t", 0).leader_epoch == 2

    play(story, leader_imbalance_check_interval_seconds="30")


def test_it_is_not_looked_for_where_that_is_not_wanted() -> None:
    async def story(cluster: SimCluster) -> None:
        await away(cluster)
        await asyncio.sleep(40)
        image = cluster.brokers[0].broker.image
        assert image.topics["t"].partitions[0].leader == TWO
        event = ElectionAsked(ElectionType.PREFERRED, [TopicPartition("t", 0)])
        assert (await cluster.controller().carry_out(event)).refused == {}

    play(
        story,
        leader_imbalance_check_interval_seconds="30",
        auto_leader_rebalance_enable="false",
    )
