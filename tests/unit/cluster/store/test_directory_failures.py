"""A log directory fails, its broker goes on: the controller hears of it, and others take over."""

import asyncio

import pytest

from headrace.broker.broker import Broker
from headrace.cluster.store import znodes
from headrace.cluster.store.catalog import Catalog
from headrace.cluster.store.znodes import PartitionState
from headrace.cluster.topics.creation import NewTopic
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.ports.store import SessionLost
from headrace.testing.sim.cluster import SimCluster
from tests.support.cluster.peer_kit import play, started
from tests.support.log.log import batch_of
from tests.support.sim.cluster import until

ONE, TWO = BrokerId(1), BrokerId(2)


def fail(broker: Broker, index: int) -> None:
    """Have the directory fail that has this partition of t."""
    key = TopicPartition("t", index)
    (directory,) = [directory for directory in broker.directories if key in directory.logs]
    directory.context.fail(OSError(5, "Input/output error"), directory.path)


async def states(cluster: SimCluster) -> dict[int, PartitionState]:
    return (await Catalog(cluster.ensemble.session()).topics())["t"].states


async def no_notice_is_left(cluster: SimCluster) -> None:
    session = cluster.ensemble.session()
    for _ in range(500):
        if not await session.children(znodes.DIRECTORY_FAILURES):
            return
    raise AssertionError("they stay")


def test_its_followers_leave_their_isrs_and_its_leaders_hand_over_and_the_others_stay() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1, 2)
        both = {0: (ONE, TWO), 1: (ONE, TWO), 2: (TWO, ONE), 3: (TWO, ONE)}
        await cluster.controller().create_topics([NewTopic("t", assignment=both)])
        first, second = cluster.brokers[1].broker, cluster.brokers[2].broker
        await until(lambda: len(first.followed) == len(second.followed) == 2)
        fail(first, 0)
        (failed,) = [directory for directory in first.directories if directory.fenced]
        hit = [index for index in both if TopicPartition("t", index) in failed.logs]
        assert 0 < len(hit) < 4
        await until(lambda: ("t", 0) in second.partitions)
        await until(lambda: all(("t", index) in second.partitions for index in hit))
        found = await states(cluster)
        for index in both:
            leader = TWO if index in hit else both[index][0]
            assert found[index].leader == leader
            assert set(found[index].isr) == ({TWO} if index in hit else {ONE, TWO})
        await no_notice_is_left(cluster)
        await cluster.stop(0)  # the next controller knows it too
        await until(lambda: cluster.brokers[1].controller.is_controller
                    or cluster.brokers[2].controller.is_controller)  # fmt: skip
        facts = cluster.controller()._present_term().facts
        await until(
            lambda: {key.partition for broker, key in facts.failed if broker == ONE} == set(hit)
        )

    play(story, log_dirs="/a,/b", replica_lag_time_max_ms="600000")


def test_replica_that_failed_to_lead_may_join_the_isr_once_it_follows() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1, 2)
        await cluster.controller().create_topics([NewTopic("t", assignment={0: (ONE, TWO)})])
        first, second = cluster.brokers[1].broker, cluster.brokers[2].broker
        await until(lambda: ("t", 0) in second.followed)
        await cluster.prefer("t", [TWO, ONE])
        second.stop_partition("t", 0, delete=True)  # its log is lost
        await cluster.elect("t")
        facts = cluster.controller()._present_term().facts
        assert facts.topics["t"].states[0].leader == ONE
        await until(lambda: ("t", 0) in second.followed)
        first.partition("t", 0).append_internal(batch_of(b"a"))
        await until(lambda: set(facts.topics["t"].states[0].isr) == {ONE, TWO})
        assert not facts.failed
        assert not first.image.topics["t"].partitions[0].offline

    play(story, replica_lag_time_max_ms="600000")


def test_what_was_told_while_there_was_no_controller_the_next_one_takes() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1, 2)
        await cluster.controller().create_topics([NewTopic("t", assignment={0: (ONE, TWO)})])
        second = cluster.brokers[2].broker
        await until(lambda: ("t", 0) in second.followed)
        session = cluster.ensemble.session()
        await session.create(f"{znodes.DIRECTORY_FAILURES}/x", b"of no sense", sequential=True)
        fail(cluster.brokers[1].broker, 0)
        await cluster.stop(0)
        await until(lambda: ("t", 0) in second.partitions)
        await no_notice_is_left(cluster)

    play(story, replica_lag_time_max_ms="600000")


def test_a_failure_during_an_outage_of_the_store_is_told_once_it_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1, 2)
        await cluster.controller().create_topics([NewTopic("t", assignment={0: (ONE, TWO)})])
        first, second = cluster.brokers[1], cluster.brokers[2].broker
        await until(lambda: ("t", 0) in second.followed)
        store = first.controller._store
        tried: list[str] = []

        async def away(path: str, *_: object, **__: object) -> str:
            tried.append(path)
            raise SessionLost("away")

        with monkeypatch.context() as outage:
            outage.setattr(store, "create", away)
            fail(first.broker, 0)
            await until(lambda: tried)
            await asyncio.sleep(1)
            assert ("t", 0) not in second.partitions
        first.controller._back()
        await until(lambda: ("t", 0) in second.partitions)
        await no_notice_is_left(cluster)
        told = len(cluster.ensemble.tree.children(znodes.DIRECTORY_FAILURES))
        with monkeypatch.context() as later:
            later.setattr(store, "create", away)
            tried.clear()
            first.controller._back()
            await asyncio.sleep(1)
        assert (tried, told) == ([], 0), "it is told once"

    play(story, replica_lag_time_max_ms="600000")
