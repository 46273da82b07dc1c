"""Copies of partitions that were moved to other brokers while their broker was away."""

from typing import Any

import pytest

from headrace.client.producer.producer import Producer
from headrace.cluster.membership import orphaned_logs
from headrace.cluster.topics.creation import NewTopic
from headrace.model.errors import ApiError
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.testing.sim.cluster import SimCluster
from tests.support.sim import cluster as sim_cluster
from tests.support.sim.cluster import until

ONE, TWO, THREE = (BrokerId(number) for number in (1, 2, 3))
T0, U0 = TopicPartition("t", 0), TopicPartition("u", 0)


async def moved_while_away(cluster: SimCluster) -> None:
    """Broker 3 holds `t-0` with a record and `u-0`; `t-0` is moved to 1 and 2 while it is away."""
    wanted = [NewTopic("t", assignment={0: [ONE, THREE]}), NewTopic("u", assignment={0: [THREE]})]
    for made in await cluster.controller().create_topics(wanted):
        assert not isinstance(made, ApiError)
    client = cluster.client("writer")
    producer = Producer(client)
    await producer.send("t", b"x", partition=0, timestamp=1)
    await producer.flush()
    client.close()
    await cluster.stop(3)
    image = cluster.brokers[1].broker.image
    await until(lambda: 3 not in image.brokers)
    await cluster.controller().replicas.reassign({T0: (ONE, TWO)})
    await until(lambda: tuple(image.topics["t"].partitions[0].replicas) == (1, 2))


def logs(cluster: SimCluster, number: int) -> set[TopicPartition]:
    (directory,) = cluster.brokers[number].broker.directories
    return set(directory.logs)


def test_a_copy_that_no_assignment_holds_is_deleted_and_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(cluster: SimCluster) -> None:
        await moved_while_away(cluster)
        await cluster.start(3)
        assert logs(cluster, 3) == {T0, U0}
        await until(lambda: logs(cluster, 3) == {U0}, 2 * orphaned_logs.LOOK_SECONDS)
        assert (logs(cluster, 1), logs(cluster, 2)) == ({T0}, {T0})

    sim_cluster.play(story, 1, 2, 3)
    named = [text for text in caplog.messages if text.startswith("t-0: assigned to brokers")]
    (text,) = named
    assert "assigned to brokers [1, 2], no longer to this one; a copy of" in text
    assert text.endswith("it is deleted, as all of them are in sync")


def test_a_copy_is_kept_and_named_until_all_replicas_are_in_sync(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(cluster: SimCluster) -> None:
        await moved_while_away(cluster)
        await cluster.stop(2)
        image = cluster.brokers[1].broker.image
        await until(lambda: len(image.topics["t"].partitions[0].isr) == 1)
        await cluster.start(3)
        await until(lambda: "t-0: assigned to" in caplog.text, 2 * orphaned_logs.LOOK_SECONDS)
        assert caplog.messages[-1].endswith("it is kept until all of them are in sync")
        for _ in range(3):
            await cluster.brokers[3].cluster_links._orphans.look()  # type: ignore[union-attr]
        assert caplog.text.count("t-0: assigned to") == 1, "once for each reason"
        assert logs(cluster, 3) == {T0, U0}
        await cluster.start(2)
        await until(lambda: logs(cluster, 3) == {U0}, 3 * orphaned_logs.LOOK_SECONDS)

    sim_cluster.play(story, 1, 2, 3)


def test_a_copy_of_another_topic_of_that_name_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    async def story(cluster: SimCluster) -> None:
        await moved_while_away(cluster)
        server = await cluster.start(3)
        (directory,) = server.broker.directories
        directory.logs[T0].topic_id = b"another topic id"
        await until(lambda: "t-0: assigned to" in caplog.text, 2 * orphaned_logs.LOOK_SECONDS)
        assert "it has another topic id" in caplog.text
        assert logs(cluster, 3) == {T0, U0}

    sim_cluster.play(story, 1, 2, 3)


def test_a_copy_that_is_assigned_again_is_followed_and_stays() -> None:
    async def story(cluster: SimCluster) -> None:
        await moved_while_away(cluster)
        server = await cluster.start(3)
        orphans: Any = server.cluster_links._orphans  # type: ignore[union-attr]
        read = orphans._catalog.topics

        async def read_then_assigned(*args: Any, **named: Any) -> Any:
            found = await read(*args, **named)
            await cluster.controller().replicas.reassign({T0: (ONE, TWO, THREE)})
            await until(lambda: T0 in server.broker.followed)
            return found

        orphans._catalog.topics = read_then_assigned
        await orphans.look()
        assert logs(cluster, 3) == {T0, U0}
        image = cluster.brokers[1].broker.image
        await until(lambda: len(image.topics["t"].partitions[0].isr) == 3)

    sim_cluster.play(story, 1, 2, 3)
