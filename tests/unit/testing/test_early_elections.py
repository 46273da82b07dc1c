"""Leaders whose process was killed are replaced before their session of the store ends."""

import asyncio

import pytest

from headrace.broker.metadata_image import MetadataImage
from headrace.cluster.topics.creation import NewTopic
from headrace.model.nouns import BrokerId
from headrace.testing.sim.cluster import SimCluster
from headrace.testing.sim.ensemble import SESSION_SECONDS
from tests.support.sim.cluster import Story, until
from tests.support.sim.cluster import play as sim_play

BROKERS = (1, 2, 3)
SECONDS = 0.5
"""Until another leads: two refusals 50 ms apart, an election, and the time of messages."""


def play(story: Story, leader: int) -> None:
    """Play with three brokers, of which 1 is the controller and `leader` leads the topic t."""

    async def whole(cluster: SimCluster) -> None:
        for number in BROKERS:
            await cluster.start(number)
        await until(lambda: all(len(shown(cluster, number).brokers) == 3 for number in BROKERS))
        replicas = tuple(BrokerId(number) for number in (leader, *BROKERS) if number)
        await cluster.controller().create_topics(
            [NewTopic("t", assignment={0: tuple(dict.fromkeys(replicas))})]
        )
        await asyncio.sleep(0.5)
        await story(cluster)

    sim_play(whole)


def shown(cluster: SimCluster, number: int) -> MetadataImage:
    return cluster.brokers[number].broker.image


def leaders(cluster: SimCluster) -> list[int]:
    return [
        number for number, server in cluster.brokers.items() if ("t", 0) in server.broker.partitions
    ]


@pytest.mark.parametrize("leader", [1, 2])
def test_other_replica_leads_soon_after_the_leader_was_killed(leader: int) -> None:
    async def story(cluster: SimCluster) -> None:
        assert leaders(cluster) == [leader]
        cluster.kill(leader)
        began = cluster.loop.time()
        await until(lambda: leaders(cluster), SECONDS)
        (following,) = leaders(cluster)
        term = cluster.brokers[following].broker.partition("t", 0).role.term
        assert term is not None
        assert leader not in term.in_sync
        assert len(term.in_sync) == 2
        assert cluster.loop.time() - began < SESSION_SECONDS / 2
        await cluster.start_again(leader)
        await until(lambda: len(term.in_sync) == 3, 20)

    play(story, leader)


def test_killed_follower_leaves_the_isr_before_its_session_ends() -> None:
    async def story(cluster: SimCluster) -> None:
        cluster.kill(3)
        partition = cluster.brokers[2].broker.partition("t", 0)
        await until(lambda: partition.role.term and 3 not in partition.role.term.in_sync, SECONDS)
        await cluster.start_again(3)

    play(story, 2)


def test_paused_leader_keeps_its_leadership_while_its_session_lives() -> None:
    async def story(cluster: SimCluster) -> None:
        epoch = cluster.brokers[2].broker.partition("t", 0).leader_epoch
        cluster.worlds[2].pause()
        await asyncio.sleep(SESSION_SECONDS * 0.6)
        cluster.worlds[2].resume()
        await asyncio.sleep(1)
        assert cluster.brokers[2].broker.partition("t", 0).leader_epoch == epoch

    play(story, 2)
