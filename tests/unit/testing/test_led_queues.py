"""Queues of three brokers: the one that leads delivers, no other does, and the next one follows."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from headrace.broker.replica import leading_right
from headrace.broker.replica.held_rights import HeldRights
from headrace.broker.replica.joining import by_log
from headrace.broker.replica.leading_right import GRANT_SECONDS, WAIT_SECONDS
from headrace.cluster.topics.creation import NewTopic
from headrace.model.nouns import BrokerId
from headrace.queues.queue_names import is_queue_topic
from headrace.server.cluster.queue_leadership import QueueLeadership
from headrace.testing.sim.cluster import SimCluster
from headrace.testing.sim.ensemble import SESSION_SECONDS
from headrace.testing.sim.history import Broken
from tests.support.sim.cluster import play as sim_play
from tests.support.sim.cluster import until
from tests.support.sim.led_queues import TOPIC, LedQueues

BROKERS = (1, 2, 3)
LEADER = 2
SECONDS = 0.1
"""Of messages between brokers, and of the timers that lead to them."""


@pytest.fixture(autouse=True)
def _without_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have replicas join the ISR by their logs alone: no settled positions are copied here."""
    monkeypatch.setattr("headrace.broker.partition.joins", lambda topic: by_log)


def play(story: Callable[[LedQueues], Awaitable[None]], seed: int = 1) -> None:
    """Play with three brokers, of which 2 leads the queue."""

    async def whole(cluster: SimCluster) -> None:
        cluster.sole_leaders = is_queue_topic
        queues = LedQueues(cluster)
        for number in BROKERS:
            await queues.start(number)
        await until(lambda: len(cluster.brokers[1].broker.image.brokers) == len(BROKERS))
        replicas = tuple(map(BrokerId, (LEADER, 1, 3)))
        await cluster.controller().create_topics([NewTopic(TOPIC, assignment={0: replicas})])
        await until(lambda: queues.by(LEADER), 2)
        await story(queues)
        if queues.broken:
            raise Broken(queues.broken[0])

    sim_play(whole, seed=seed)


def test_only_the_leader_delivers() -> None:
    async def story(queues: LedQueues) -> None:
        await asyncio.sleep(1)
        assert len(queues.by(LEADER)) > 40
        assert {each.broker for each in queues.delivered} == {LEADER}

    play(story)


def test_deliveries_continue_a_round_trip_after_a_handover() -> None:
    async def story(queues: LedQueues) -> None:
        await queues.cluster.stop(LEADER)
        await until(lambda: queues.by(1) or queues.by(3), SESSION_SECONDS)
        following = queues.by(1) or queues.by(3)
        assert following[0] - queues.by(LEADER)[-1] < WAIT_SECONDS / 2
        await queues.start(LEADER)
        await until(lambda: len(in_sync(queues)) == 3, 20)
        before = len(queues.by(LEADER))
        await queues.cluster.elect(TOPIC)
        await until(lambda: len(queues.by(LEADER)) > before, WAIT_SECONDS / 2)

    play(story)


def in_sync(queues: LedQueues) -> frozenset[BrokerId]:
    """The ISR as the leader has it."""
    for server in queues.cluster.brokers.values():
        partition = server.broker.partitions.get((TOPIC, 0))
        if partition is not None and partition.role.term is not None:
            return partition.role.term.in_sync
    return frozenset()


async def silent_leader(queues: LedQueues) -> None:
    """Have the leader stand still until another one delivers, and go on then."""
    world = queues.cluster.worlds[LEADER]
    paused_at = queues.cluster.loop.time()
    world.pause()
    await until(lambda: queues.by(1) or queues.by(3), SESSION_SECONDS + WAIT_SECONDS + 3)
    first = (queues.by(1) or queues.by(3))[0]
    assert first - paused_at > SESSION_SECONDS / 2
    world.resume()
    await asyncio.sleep(3)


async def cut_off_leader(queues: LedQueues) -> None:
    """Cut the leader off from the others and the store: it delivers until its right ends."""
    cluster = queues.cluster
    cut_at = cluster.loop.time()
    for other in (1, 3):
        cluster.network.cut(f"broker-{LEADER}", f"broker-{other}")
        cluster.network.cut(f"broker-{other}", f"broker-{LEADER}")
    await asyncio.sleep(GRANT_SECONDS + SECONDS)
    assert cut_at < queues.by(LEADER)[-1] < cut_at + GRANT_SECONDS
    await cluster.elect(TOPIC)


def test_leader_that_stood_still_delivers_nothing_after_another_did() -> None:
    play(silent_leader)


def test_leader_that_is_cut_off_stops_to_deliver() -> None:
    play(cut_off_leader)


def test_killed_leader_is_followed_after_the_wait() -> None:
    async def story(queues: LedQueues) -> None:
        queues.kill(LEADER)
        await until(lambda: queues.by(1) or queues.by(3), SESSION_SECONDS * 2)
        await queues.start_again(LEADER)
        await until(lambda: len(in_sync(queues)) == 3, 20)

    play(story)


# Planted bugs


def test_two_leaders_that_deliver_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leading_right, "WAIT_SECONDS", 0.0)
    monkeypatch.setattr(HeldRights, "_end_grants", lambda self: None)
    with pytest.raises(Broken, match="delivers, and"):
        play(silent_leader)


def resumes() -> None:
    """Play with seeds, by which callbacks of a process that stood still run in other orders."""
    for seed in range(10):
        play(silent_leader, seed)


def test_process_that_delivers_before_its_timers_run_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(QueueLeadership, "check", lambda self: None)
    with pytest.raises(Broken, match="delivers, and"):
        resumes()
