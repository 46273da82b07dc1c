"""A replica that copies a queue's log over the gaps of its leader is sound after a crash."""

import pytest

from headrace.broker.partition import Partition
from tests.support.cluster.queue_part import AT, QueueCluster, QueuePart, play
from tests.support.sim.cluster import until

MESSAGES = 60
CONFIG = {"segment.bytes": "4096"}


def bases(partition: Partition) -> list[int]:
    return [segment.base_offset for segment in partition.log.segments]


async def make_gap(here: QueuePart) -> list[str]:
    """Settle all but the first and the last of many messages; return these, marked."""
    bodies = [f"{number:03}" + "x" * 400 for number in range(MESSAGES)]
    await here.published(*bodies)
    partition = here.broker.partitions[AT]
    before = bases(partition)
    first = await here.get()
    assert first == bodies[0]
    for body in bodies[1:-1]:
        assert await here.take() == body
    await here.settled_behind(MESSAGES - 1)
    await until(lambda: len(bases(partition)) <= 3 < len(before))
    return [f"{bodies[0]}*", f"{bodies[-1]}"]


def follower(cluster: QueueCluster, number: int) -> Partition:
    return cluster.sim.brokers[number].broker.followed[AT]


@pytest.mark.parametrize("crash", ["kill", "power cut"])
def test_grown_replica_with_a_gap_starts_after_a_crash(crash: str) -> None:
    async def story(cluster: QueueCluster) -> None:
        here = cluster.leader
        left = await make_gap(here)
        await cluster.assign(2, 1, 3)
        await cluster.in_sync(1, 2, 3)
        copied = bases(follower(cluster, 3))
        assert len(copied) <= len(bases(here.broker.partitions[AT])) + 1
        if crash == "kill":
            cluster.sim.kill(3)
        else:
            await cluster.sim.cut_power(3)
        await cluster.sim.start_again(3)
        await until(lambda: AT in cluster.sim.brokers[3].broker.followed)
        await cluster.in_sync(1, 2, 3)
        assert bases(follower(cluster, 3))[0] == 0
        await cluster.assign(3, 2, 1)
        part = cluster.replaced(3)
        await cluster.sim.elect(AT.topic)
        await until(lambda: part.is_loaded)
        found = [await part.take() for _ in left]
        assert [body.rstrip("*") for body in found if body] == [body.rstrip("*") for body in left]
        assert await part.get() is None

    play(story, config=CONFIG, replicas=(2, 1))
