"""Preferred replicas lead again by themselves where a broker leads too little of its own."""

import asyncio

import pytest

from headrace.broker.metadata_image import NO_LEADER, BrokerInfo
from headrace.cluster.cluster_facts import ClusterFacts
from headrace.cluster.leader_balance import FIRST_SECONDS, imbalanced
from headrace.cluster.stored_topic import StoredTopic
from headrace.cluster.topic_creation import NewTopic
from headrace.cluster.znodes import PartitionState, TopicNode
from headrace.model.errors import ApiError
from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition
from headrace.testing.sim.cluster import SimCluster
from headrace.testing.sim.loop import SimLoop

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)


def facts(led_by_two: int, partitions: int = 10) -> ClusterFacts:
    """A topic that broker 1 is preferred for, of which broker 2 leads the first partitions."""
    node = TopicNode(dict.fromkeys(range(partitions), (ONE, TWO)), b"i" * 16)
    states = {
        index: PartitionState(TWO if index < led_by_two else ONE, LeaderEpoch(3), (ONE, TWO))
        for index in range(partitions)
    }
    found = ClusterFacts()
    found.brokers = {broker: BrokerInfo(broker, ()) for broker in (ONE, TWO, THREE)}
    found.topics = {"t": StoredTopic("t", node, {}, states, 0, dict.fromkeys(states, 0))}
    return found


def indexes(found: list[TopicPartition]) -> list[int]:
    return [partition.partition for partition in found]


@pytest.mark.parametrize(
    ("led_by_two", "percentage", "moved"), [(0, 0, 0), (1, 10, 0), (2, 10, 2), (1, 9, 1), (1, 0, 1)]
)
def test_leaders_move_where_more_than_so_many_percent_are_led_by_others(
    led_by_two: int, percentage: int, moved: int
) -> None:
    assert indexes(imbalanced(facts(led_by_two), percentage)) == list(range(moved))


def test_leaders_of_a_broker_that_is_away_or_not_in_sync_or_whose_partition_moves_stay() -> None:
    away = facts(5)
    del away.brokers[ONE]
    assert imbalanced(away, 10) == []
    lagging = facts(5)
    lagging.topics["t"].states[0] = PartitionState(TWO, LeaderEpoch(3), (TWO,))
    assert indexes(imbalanced(lagging, 10)) == [1, 2, 3, 4]
    moving = facts(5)
    moving.topics["t"].node = moving.topics["t"].node._replace(adding={1: (THREE,)})
    assert indexes(imbalanced(moving, 10)) == [0, 2, 3, 4]
    going = facts(5)
    going.deleting.add("t")
    assert imbalanced(going, 10) == []
    offline = facts(5)
    offline.topics["t"].states[0] = PartitionState(NO_LEADER, LeaderEpoch(3), (ONE,))
    assert indexes(imbalanced(offline, 10)) == [0, 1, 2, 3, 4]


def led_after(seconds: float, **settings: str) -> list[int]:
    """Who leads `t`, whose preferred leader is broker 1, so long after 0 was made to lead it."""

    async def story(cluster: SimCluster) -> list[int]:
        for number in (0, 1):
            await cluster.start(number)
        controller = cluster.controller()
        (topic,) = await controller.create_topics([NewTopic("t", assignment={0: (0, 1)})])
        assert not isinstance(topic, ApiError)
        broker = cluster.brokers[1].broker
        key = TopicPartition("t", 0)
        if not broker.has_replica(key):
            config = cluster.brokers[1].controller.settings.log_config("t", {})
            broker.directories[0].create_log(key, topic.topic_id, config)
        await asyncio.sleep(FIRST_SECONDS)
        await controller.replicas.reassign({key: (ONE, BrokerId(0))})
        leaders = [broker.image.topics["t"].partitions[0].leader]
        await asyncio.sleep(seconds)
        leaders.append(broker.image.topics["t"].partitions[0].leader)
        for number in (0, 1):
            await cluster.stop(number)
        return list(leaders)

    loop = SimLoop(1)
    named = {key.replace("_", "."): value for key, value in settings.items()}
    return loop.play(story(SimCluster(loop, 1, named)))


def test_the_controller_looks_every_so_often_and_has_the_preferred_lead() -> None:
    assert led_after(310) == [0, 1]
    assert led_after(250) == [0, 0]
    assert led_after(70, leader_imbalance_check_interval_seconds="60") == [0, 1]
    assert led_after(310, auto_leader_rebalance_enable="false") == [0, 0]
    assert led_after(310, leader_imbalance_per_broker_percentage="100") == [0, 0]
