"""Leaders whose process was killed are replaced before their session of the store ends."""

import asyncio
from functools import partial

import pytest

from headrace.broker.metadata_image import MetadataImage
from headrace.cluster.store import znodes
from headrace.cluster.store.catalog import Catalog
from headrace.cluster.topics.creation import NewTopic
from headrace.model.nouns import BrokerId
from headrace.ports.store import NoNode
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


def reachable_from(cluster: SimCluster, number: int, wanted: list[int]) -> bool:
    """Whether a broker shows clients exactly these brokers."""
    found = shown(cluster, number).reachable_brokers()
    return sorted(broker.broker_id for broker in found) == wanted


def leaders(cluster: SimCluster) -> list[int]:
    return [
        number for number, server in cluster.brokers.items() if ("t", 0) in server.broker.partitions
    ]


def controller_node(cluster: SimCluster) -> int | None:
    """The broker that `/controller` names."""
    try:
        return znodes.decode_controller(cluster.ensemble.tree.get(znodes.CONTROLLER).value)
    except NoNode:
        return None


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
        others = [number for number in BROKERS if number != leader]
        for number in others:
            await until(partial(reachable_from, cluster, number, others), SECONDS)
        await cluster.start_again(leader)
        for number in BROKERS:
            await until(partial(reachable_from, cluster, number, list(BROKERS)), 2)
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


def test_broker_that_is_deposed_while_it_begins_as_the_controller_follows_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deletions = Catalog.deletions
    delayed: list[int | None] = []

    async def story(cluster: SimCluster) -> None:
        async def read_slowly(self: Catalog) -> list[str]:
            """Have another broker be elected while the first one reads the store."""
            if not delayed:
                delayed.append(controller_node(cluster))
                await cluster.ensemble.session("test").delete(znodes.CONTROLLER)
                await until(lambda: controller_node(cluster) not in (None, *delayed), 10)
            return await deletions(self)

        monkeypatch.setattr(Catalog, "deletions", read_slowly)
        cluster.kill(1)
        await until(lambda: delayed)
        first = delayed[0]
        assert first is not None
        await until(lambda: cluster.brokers[5 - first].controller.is_controller)
        deposed = cluster.brokers[first].controller
        await until(lambda: deposed.known.id == 5 - first, 10)
        assert not deposed.is_controller
        await until(lambda: leaders(cluster) and 1 not in leaders(cluster), SECONDS)
        await cluster.start_again(1)

    play(story, 1)
