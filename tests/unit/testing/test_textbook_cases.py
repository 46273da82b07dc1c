"""Two cases of two replicas and min.insync.replicas=1: a cut to the high watermark loses or forks
records in them, step by step; by leader epochs neither happens."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from headrace.broker.partition import Partition
from headrace.client.client import Client
from headrace.client.producer import Producer
from headrace.cluster.events import ReassignmentAsked
from headrace.cluster.topic_creation import NewTopic
from headrace.log.directory.log_directory import LogDirectory
from headrace.log.log import Log
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.replication.followed_partition import FollowedPartition
from headrace.testing.sim.cluster import SimCluster
from headrace.testing.sim.loop import SimLoop
from headrace.testing.sim.replica_trace import ReplicaTrace
from headrace.testing.sim.replica_watch import contents
from headrace.testing.sim.world import WALL_MS

CONTROLLER, A, B = BrokerId(1), BrokerId(2), BrokerId(3)


class TwoReplicas:
    """A leads a partition that B follows; a third broker is the controller only."""

    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.trace = ReplicaTrace(cluster, "t", {A: "A", B: "B"})

    async def begin(self) -> None:
        for number in (CONTROLLER, A, B):
            await self.cluster.start(number)
        brokers = self.cluster.brokers[CONTROLLER].broker.image.brokers
        await until(lambda: len(brokers) == 3)
        config = {"min.insync.replicas": "1"}
        wanted = NewTopic("t", assignment={0: (A, B)}, config=config)
        await self.cluster.controller().create_topics([wanted])

    def client(self, name: str) -> Client:
        client = self.cluster.client(name)
        client.retry_seconds = 60.0
        return client

    def partition(self, broker: BrokerId) -> Partition | None:
        server = self.cluster.brokers.get(broker)
        if server is None:
            return None
        held = server.broker.partitions.get(("t", 0))
        return held or server.broker.followed.get(("t", 0))

    def log(self, broker: BrokerId) -> Log:
        partition = self.partition(broker)
        assert partition is not None
        return partition.log

    def epoch(self, broker: BrokerId) -> int:
        partition = self.partition(broker)
        return -1 if partition is None else partition.leader_epoch

    def leads(self, broker: BrokerId) -> bool:
        server = self.cluster.brokers.get(broker)
        return server is not None and ("t", 0) in server.broker.partitions

    def values(self, broker: BrokerId) -> list[bytes]:
        return list(contents(self.log(broker)).values())

    def mark(self, broker: BrokerId) -> tuple[int, int]:
        """High watermark and log end."""
        partition = self.partition(broker)
        return (-1, -1) if partition is None else (
            partition.log.high_watermark, partition.log.end_offset
        )  # fmt: skip

    async def write(self, value: bytes, acks: int = -1) -> None:
        client = self.client("writer")
        producer = Producer(client, idempotent=False, acks=acks)
        await producer.send("t", value, timestamp=WALL_MS, partition=0)
        await producer.flush()
        client.close()


async def until(holds: Callable[[], object]) -> None:
    for _ in range(6000):
        if holds():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never is")


async def message_acknowledged_before_the_follower_knows(two: TwoReplicas) -> None:
    """Message 1 is on both replicas and acknowledged; B's high watermark is still 1."""
    await two.begin()
    await two.write(b"message 0")
    await until(lambda: two.mark(B) == (1, 1))
    two.cluster.network.slow("broker-2", "broker-3", 300)
    await two.write(b"message 1")
    assert two.mark(A) == (2, 2)
    assert two.mark(B) == (1, 2)  # it is told with the next answer
    two.trace.note("message 1 is acknowledged")


async def loss(two: TwoReplicas) -> None:
    """B begins to follow A anew, then A fails: B leads with what it has."""
    await message_acknowledged_before_the_follower_knows(two)
    two.cluster.network.cut("broker-2", "broker-3")  # no more of A's answers reach B
    moved = ReassignmentAsked(TopicPartition("t", 0), (B, A))
    await two.cluster.controller().carry_out(moved)
    await until(lambda: two.epoch(B) == two.epoch(A) > 0)
    two.trace.note("B follows A anew")
    await asyncio.sleep(0.5)
    assert not two.leads(B)
    falling = asyncio.ensure_future(two.cluster.cut_power(A))
    await until(lambda: two.leads(B))
    two.trace.note("A is gone, B leads")
    await falling
    two.cluster.network.mend("broker-2", "broker-3")
    await two.write(b"message 2")
    await two.cluster.start(A)
    await until(lambda: two.mark(A) == two.mark(B) and two.mark(B)[0] == two.mark(B)[1])
    two.trace.note("A is back")


async def divergence(two: TwoReplicas) -> None:
    """A writes what B never sees; B leads without it and writes another in its place."""
    await message_acknowledged_before_the_follower_knows(two)
    two.cluster.network.slow("broker-2", "broker-3", 1)
    await until(lambda: two.mark(B) == (2, 2))
    two.cluster.network.cut("broker-2", "broker-3")
    await two.write(b"A's own", acks=1)
    await until(lambda: two.log(A).flushed_offset == 3)
    assert (two.mark(A), two.mark(B)) == ((2, 3), (2, 2))
    two.trace.note("A alone has its own")
    falling = asyncio.ensure_future(two.cluster.cut_power(A))
    await until(lambda: two.leads(B))
    two.trace.note("A is gone, B leads")
    await two.write(b"B's own")
    await falling
    two.cluster.network.mend("broker-2", "broker-3")
    await two.cluster.start(A)
    two.trace.note("A is back")
    await until(lambda: two.mark(A) == two.mark(B) == (3, 3))
    two.trace.note("A has cut its own, and has B's")


@pytest.mark.parametrize("seed", range(3))
def test_the_loss_by_a_truncation_to_the_high_watermark_does_not_happen(seed: int) -> None:
    two = play(loss, seed)
    for broker in (A, B):
        assert two.values(broker) == [b"message 0", b"message 1", b"message 2"]


def test_the_loss_happens_where_a_follower_begins_by_cutting_to_its_high_watermark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cut_to_high_watermark(monkeypatch)
    two = play(loss, 0)
    for broker in (A, B):
        assert two.values(broker)[:2] == [b"message 0", b"message 2"]


@pytest.mark.parametrize("seed", range(3))
def test_the_divergence_behind_the_high_watermark_does_not_happen(seed: int) -> None:
    two = play(divergence, seed)
    for broker in (A, B):
        assert two.values(broker) == [b"message 0", b"message 1", b"B's own"]
    assert two.log(A).truncations == 1


def play(case: Callable[[TwoReplicas], Coroutine[Any, Any, None]], seed: int) -> TwoReplicas:
    """Play a case, and print its steps."""
    loop = SimLoop(seed)
    two = TwoReplicas(SimCluster(loop, seed))

    async def whole() -> None:
        watching = loop.create_task(two.trace.watch())
        await case(two)
        watching.cancel()
        for broker in (A, B):
            two.values(broker)

    loop.play(whole())
    print(two.trace.table())
    return two


def cut_to_high_watermark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have followers begin as they did before there were leader epochs."""
    begin = FollowedPartition.__init__

    def planted(self: FollowedPartition, *args: Any) -> None:
        begin(self, *args)
        log = self.partition.log
        directory = log.context.events
        assert isinstance(directory, LogDirectory)
        if not log.cutting:
            directory.truncate_logs([(log, log.high_watermark)], lambda _: self.log_readable())

    monkeypatch.setattr(FollowedPartition, "__init__", planted)
