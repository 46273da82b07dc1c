"""Brokers ping the replicas of the partitions that they lead, for the right to lead alone."""

import asyncio
from collections.abc import Iterator, Mapping

import pytest

from headrace.broker.partition import Partition
from headrace.broker.replica import leading_right
from headrace.broker.replica.held_rights import HeldRights
from headrace.broker.replica.leading_right import (
    GRANT_SECONDS,
    PING_SECONDS,
    SILENT_SECONDS,
    WAIT_SECONDS,
    Leaderships,
)
from headrace.cluster.topics.creation import NewTopic
from headrace.model.nouns import BrokerId
from headrace.server.cluster.lease_pings import LOOK_SECONDS
from headrace.testing.sim import stories
from headrace.testing.sim.cluster import SimCluster
from headrace.testing.sim.ensemble import SESSION_SECONDS
from headrace.testing.sim.history import Broken
from headrace.testing.sim.replicated import TOPIC, Told, replicated_work
from tests.support.sim.broken import first_broken
from tests.support.sim.cluster import Story, until
from tests.support.sim.cluster import play as sim_play

SEEDS = 2
SEEDS_MAX = 50
BROKERS = (1, 2, 3)
LEADER = 2
SECONDS = 0.1
"""Of messages between brokers, and of the timers that lead to them."""


def play(story: Story) -> None:
    """Play with three brokers, of which 2 leads the topic t by a right."""

    async def whole(cluster: SimCluster) -> None:
        cluster.sole_leaders = lambda name: name == "t"
        for number in BROKERS:
            await cluster.start(number)
        await until(lambda: len(cluster.brokers[1].broker.image.brokers) == len(BROKERS))
        replicas = tuple(BrokerId(number) for number in (LEADER, 1, 3))
        await cluster.controller().create_topics([NewTopic("t", assignment={0: replicas})])
        cluster.loop.after_step = lambda: one_holder(cluster)
        await story(cluster)

    sim_play(whole)


async def replicated_by_right(cluster: SimCluster) -> Told:
    """The story of replicas, whose topic needs a sole leader."""
    cluster.sole_leaders = lambda name: name == TOPIC
    return await replicated_work(cluster)


def test_no_two_brokers_have_the_right_whatever_fails() -> None:
    for seed in range(SEEDS):
        told = stories.play(replicated_by_right, seed)[0]
        assert told.counts["rights held"] > 5_000


def violation(first: int) -> str:
    """The first violation in stories from the seed that had it when written; "": none is found."""
    seeds = range(first, first + SEEDS_MAX)
    return first_broken(
        lambda seed: stories.play(replicated_by_right, seed), seeds, errors=(Broken,)
    )


def test_two_leaders_that_deliver_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leading_right, "WAIT_SECONDS", 0.0)
    assert "have the right to lead" in violation(1)


def test_right_that_is_not_ended_in_time_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HeldRights, "_end_grants", lambda self: None)
    assert "without a right" in violation(1)


def test_fence_answered_by_a_broker_without_a_right_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Leaderships, "gave_up", lambda *_: True)
    assert "have the right to lead" in violation(6)


def holders(cluster: SimCluster) -> Iterator[int]:
    """The brokers that have the right to lead t-0 now."""
    for number in BROKERS:
        broker = cluster.broker(number)
        partition = None if broker is None else broker.partitions.get(("t", 0))
        server = cluster.brokers.get(number)
        rights = None if server is None else server.controller.applier.rights
        if partition is not None and rights is not None and rights.holds(partition):
            yield number


def one_holder(cluster: SimCluster) -> None:
    found = list(holders(cluster))
    assert len(found) <= 1, f"{found} have the right at once"


def in_sync(cluster: SimCluster, number: int) -> frozenset[BrokerId]:
    term = cluster.brokers[number].broker.partition("t", 0).role.term
    assert term is not None
    return term.in_sync


async def held_by(cluster: SimCluster, *numbers: int, seconds: float) -> float:
    """Wait until exactly these hold the right; return after how many seconds."""
    began = cluster.loop.time()
    await until(lambda: list(holders(cluster)) == list(numbers), seconds)
    return cluster.loop.time() - began


def cut(cluster: SimCluster, first: int, second: int) -> None:
    cluster.network.cut(f"broker-{first}", f"broker-{second}")
    cluster.network.cut(f"broker-{second}", f"broker-{first}")


def mend(cluster: SimCluster, first: int, second: int) -> None:
    cluster.network.mend(f"broker-{first}", f"broker-{second}")
    cluster.network.mend(f"broker-{second}", f"broker-{first}")


def test_first_leader_holds_the_right_once_its_followers_have_answered() -> None:
    async def story(cluster: SimCluster) -> None:
        await held_by(cluster, LEADER, seconds=PING_SECONDS + SECONDS)
        for _ in range(100):
            await asyncio.sleep(0.05)
            assert list(holders(cluster)) == [LEADER]

    play(story)


def test_silent_follower_ends_the_right_until_it_has_left_the_isr() -> None:
    async def story(cluster: SimCluster) -> None:
        await held_by(cluster, LEADER, seconds=1)
        cut(cluster, LEADER, 3)
        await held_by(cluster, seconds=GRANT_SECONDS + SECONDS)
        await held_by(cluster, LEADER, seconds=SILENT_SECONDS + LOOK_SECONDS + SECONDS)
        assert in_sync(cluster, LEADER) == {1, LEADER}
        mend(cluster, LEADER, 3)
        await until(lambda: in_sync(cluster, LEADER) == {1, LEADER, 3}, 10)
        await held_by(cluster, LEADER, seconds=1)

    play(story)


def test_next_leader_waits_until_the_former_right_has_ended() -> None:
    async def story(cluster: SimCluster) -> None:
        await held_by(cluster, LEADER, seconds=1)
        cluster.kill(LEADER)
        await until(lambda: any(("t", 0) in leads(cluster, number) for number in (1, 3)))
        (following,) = [number for number in (1, 3) if ("t", 0) in leads(cluster, number)]
        waited = await held_by(cluster, following, seconds=WAIT_SECONDS + PING_SECONDS + SECONDS)
        assert waited > WAIT_SECONDS - SECONDS
        await cluster.start_again(LEADER)

    play(story)


def leads(cluster: SimCluster, number: int) -> Mapping[tuple[str, int], Partition]:
    return cluster.brokers[number].broker.partitions


def test_leader_that_stood_still_does_not_take_its_followers_for_silent() -> None:
    async def story(cluster: SimCluster) -> None:
        await held_by(cluster, LEADER, seconds=1)
        cluster.worlds[LEADER].pause()
        await asyncio.sleep(SESSION_SECONDS * 0.6)
        assert list(holders(cluster)) == []
        cluster.worlds[LEADER].resume()
        await held_by(cluster, LEADER, seconds=1)
        assert in_sync(cluster, LEADER) == {1, LEADER, 3}

    play(story)


def test_restarted_follower_grants_again_after_its_orders() -> None:
    async def story(cluster: SimCluster) -> None:
        await held_by(cluster, LEADER, seconds=1)
        await cluster.stop(3)
        await held_by(cluster, LEADER, seconds=5)
        await cluster.start(3)
        await until(lambda: in_sync(cluster, LEADER) == {1, LEADER, 3}, 20)
        await held_by(cluster, LEADER, seconds=1)

    play(story)


def test_nothing_is_pinged_where_no_topic_needs_a_sole_leader() -> None:
    async def story(cluster: SimCluster) -> None:
        await cluster.controller().create_topics(
            [NewTopic("other", assignment={0: tuple(map(BrokerId, BROKERS))})]
        )
        await asyncio.sleep(1)
        rights = cluster.brokers[1].controller.applier.rights
        assert rights is not None
        assert rights.others == frozenset()

    play(story)
