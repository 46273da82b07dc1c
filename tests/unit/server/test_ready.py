"""Whether a broker of a cluster is ready: its session with the store, a controller that answers."""

import asyncio

import pytest

from headrace.cluster.topics.creation import NewTopic
from headrace.frontends.http.surveys import ReplicaSurvey
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.server.ready import awaited
from headrace.testing.sim.cluster import SimCluster
from headrace.testing.sim.ensemble import SESSION_SECONDS
from tests.support.cluster.peer_kit import cut_off, mend, play, started
from tests.support.sim.cluster import until

ZERO, ONE, TWO = (BrokerId(number) for number in range(3))


async def lines(cluster: SimCluster, number: int) -> list[str]:
    """Return the lines of /ready of broker `number`."""
    server = cluster.brokers[number]
    return await awaited(server.broker, server.controller, server.cluster_links)


async def all_lines(cluster: SimCluster) -> list[list[str]]:
    return [await lines(cluster, number) for number in cluster.brokers]


@pytest.mark.parametrize("noticed", [False, True], ids=["silent", "noticed"])
def test_no_broker_is_ready_while_the_store_does_not_answer(noticed: bool) -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1, 2)
        assert await all_lines(cluster) == [[], [], []]
        for number, world in cluster.worlds.items():
            if noticed:
                cluster.ensemble.cut_off(world._sessions[0])
                (line,) = await lines(cluster, number)
                assert line.startswith(f"ZooKeeper has not answered broker {number} since 20")
            else:
                world.lose_touch()
        await asyncio.sleep(SESSION_SECONDS * 3)
        for number, found in enumerate(await all_lines(cluster)):
            assert found[0].startswith(f"ZooKeeper has not answered broker {number} since 20")
            assert found[0].endswith("UTC (18 s)")
        for world in cluster.worlds.values():
            world.regain_touch()
        await asyncio.sleep(1)
        assert await all_lines(cluster) == [[], [], []]

    play(story)


@pytest.mark.parametrize("number", [0, 1], ids=["the controller", "another broker"])
def test_a_broker_cut_off_from_the_store_alone_is_not_ready(number: int) -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1, 2)
        cluster.worlds[number].lose_touch()
        await asyncio.sleep(SESSION_SECONDS * 2)
        (line,) = await lines(cluster, number)
        assert line.startswith(f"ZooKeeper has not answered broker {number} since")
        for other in {0, 1, 2} - {number}:
            assert await lines(cluster, other) == []

    play(story)


def test_a_controller_that_does_not_answer_is_awaited_by_the_others() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1, 2)
        cut_off(cluster, 0, 1)
        (line,) = await lines(cluster, 1)
        assert line.startswith("broker 0, the controller, does not answer: ")
        assert (await lines(cluster, 0), await lines(cluster, 2)) == ([], [])
        mend(cluster, 0, 1)
        await until(lambda: True)
        assert await lines(cluster, 1) == []

    play(story)


def test_a_move_is_awaited_by_no_broker_and_lost_replicas_are(nothing_is_fetched: None) -> None:
    key = TopicPartition("t", 0)

    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1, 2)
        controller = cluster.controller()
        await controller.create_topics([NewTopic("t", assignment={0: [ZERO, ONE]})])
        await controller.replicas.reassign({key: (TWO, ONE)})
        images = [server.broker.image for server in cluster.brokers.values()]
        await until(lambda: all(image.adding == {key: {TWO}} for image in images))
        assert set(images[2].topics["t"].partitions[0].replicas) == {ZERO, ONE, TWO}
        assert await all_lines(cluster) == [[], [], []]
        assert [under_replicated(cluster, number) for number in range(3)] == [0, 0, 0]
        await cluster.stop(1)
        await until(lambda: len(images[0].topics["t"].partitions[0].isr) == 1)
        await until(lambda: len(images[2].topics["t"].partitions[0].isr) == 1)
        waits = "partitions under-replicated: t-0"
        assert await all_lines(cluster) == [[waits], [waits]]
        assert under_replicated(cluster, 0) == 1
        await cluster.controller().replicas.reassign({key: None})
        await until(lambda: not images[0].adding and not images[2].adding)

    play(story)


def under_replicated(cluster: SimCluster, number: int) -> int:
    survey = ReplicaSurvey(cluster.brokers[number].broker)
    for _ in survey.slices():
        pass
    return survey.under_replicated


def test_a_refusal_names_the_store_s_outage_or_the_controller() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1, 2)
        other, wanted = cluster.brokers[1].controller, [NewTopic("t", 1, 1)]
        (refused,) = await other.create_topics(wanted)
        assert isinstance(refused, ApiError)
        assert refused.code is ErrorCode.NOT_CONTROLLER
        assert refused.message == "broker 0 is the controller, not broker 1"
        for number in (0, 1):
            (session,) = cluster.worlds[number]._sessions
            cluster.ensemble.cut_off(session)
            broker = cluster.brokers[number].controller
            (refused,) = await broker.create_topics(wanted)
            assert "ZooKeeper has not answered broker" in str(refused)
            assert "ZooKeeper" in str((await broker.delete_topics(["t"]))["t"])
            assert "ZooKeeper" in str(broker.not_controller())
            with pytest.raises(ApiError, match="ZooKeeper has not answered"):
                broker.replicas.reassigning()

    play(story)
