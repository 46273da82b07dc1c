"""Two cases of two replicas and min.insync.replicas=1: a cut to the high watermark loses or forks
records in them, step by step; by leader epochs neither happens. And one of three replicas, two in
sync, in which a join below the start of a leader's term would lose records."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from headrace.broker.in_sync_replicas import InSyncReplicas, IsrChange
from headrace.broker.partition import Partition
from headrace.client.client import Client
from headrace.client.producer import Producer
from headrace.cluster.events import ReassignmentAsked
from headrace.cluster.topic_creation import NewTopic
from headrace.log.directory.log_directory import LogDirectory
from headrace.log.log import Log
from headrace.model.nouns import BrokerId, Offset, TopicPartition
from headrace.replication.followed_partition import FollowedPartition
from headrace.testing.sim.cluster import SimCluster
from headrace.testing.sim.loop import SimLoop
from headrace.testing.sim.replica_trace import ReplicaTrace
from headrace.testing.sim.replica_watch import contents
from headrace.testing.sim.world import WALL_MS

CONTROLLER, A, B, C = (BrokerId(number) for number in (1, 2, 3, 4))


class TwoReplicas:
    """A leads a partition that B follows; a third broker is the controller only."""

    def __init__(self, cluster: SimCluster, replicas: tuple[BrokerId, ...] = (A, B)) -> None:
        self.cluster = cluster
        self.replicas = replicas
        names: dict[int, str] = {A: "A", B: "B", C: "C"}
        names = {broker: names[broker] for broker in replicas}
        self.trace = ReplicaTrace(cluster, "t", names)

    async def begin(self) -> None:
        for number in (CONTROLLER, *self.replicas):
            await self.cluster.start(number)
        brokers = self.cluster.brokers[CONTROLLER].broker.image.brokers
        await until(lambda: len(brokers) == 1 + len(self.replicas))
        config = {"min.insync.replicas": str(len(self.replicas) - 1)}
        wanted = NewTopic("t", assignment={0: self.replicas}, config=config)
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

    def in_sync(self, broker: BrokerId) -> frozenset[BrokerId]:
        partition = self.partition(broker)
        term = None if partition is None else partition.role.term
        return frozenset() if term is None else term.in_sync

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


async def divergence(two: TwoReplicas, *, written: bool = True) -> None:
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
    if written:
        await two.write(b"B's own")
    await falling
    two.cluster.network.mend("broker-2", "broker-3")
    await two.cluster.start(A)
    two.trace.note("A is back")
    end = 3 if written else 2
    await until(lambda: two.mark(A) == two.mark(B) == (end, end))
    two.trace.note("A has cut its own, and has B's")


async def join_of_one_that_lags(three: TwoReplicas) -> None:
    """A and B lose their power. B leads again, and has forgotten how far it was committed; C lacks
    records that were. B falls once more before C has them."""
    network = three.cluster.network
    await three.begin()
    await three.write(b"message 0")
    await until(lambda: three.mark(C) == three.mark(B) == (1, 1))
    for sender in ("broker-2", "broker-3"):
        network.cut(sender, "broker-4")
    await three.write(b"message 1")  # acknowledged when C has left the ISR
    three.trace.note("message 1 is acknowledged")
    falling = [asyncio.ensure_future(three.cluster.cut_power(A))]
    await asyncio.sleep(0.5)
    falling.append(asyncio.ensure_future(three.cluster.cut_power(B)))
    await asyncio.sleep(0.5)
    three.trace.note("A and B are gone")
    for sender in ("broker-2", "broker-3"):
        network.mend(sender, "broker-4")
    await asyncio.gather(*falling)
    network.slow("broker-3", "broker-4", 500)  # C's fetches arrive soon, and B's answers late
    await three.cluster.start(B)
    await until(lambda: three.leads(B))
    three.trace.note("B leads")
    assert three.mark(B) == (0, 2)
    await until(lambda: C in three.in_sync(B) or three.mark(C) == (2, 2))
    three.trace.note("C is in sync")
    await three.cluster.cut_power(B)
    three.trace.note("B is gone again")
    network.slow("broker-3", "broker-4", 1)
    for broker in (A, B):
        await three.cluster.start(broker)
    await until(lambda: {three.mark(broker) for broker in three.replicas} in ({(2, 2)}, {(1, 1)}))
    three.trace.note("all are back")


def test_who_lags_behind_the_start_of_a_term_does_not_join_and_nothing_is_lost() -> None:
    three = play(join_of_one_that_lags, 3, (A, B, C))
    for broker in three.replicas:
        assert three.values(broker) == [b"message 0", b"message 1"]


def test_a_join_below_the_start_of_a_term_loses_what_was_acknowledged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Planted; else the test above would see nothing."""
    join = InSyncReplicas.join

    def planted(
        self: InSyncReplicas, replica: BrokerId, high_watermark: Offset, *, flushed: bool
    ) -> IsrChange | None:
        start, self.start = self.start, Offset(0)
        try:
            return join(self, replica, high_watermark, flushed=flushed)
        finally:
            self.start = start

    monkeypatch.setattr(InSyncReplicas, "join", planted)
    three = play(join_of_one_that_lags, 3, (A, B, C))
    for broker in three.replicas:
        assert three.values(broker) == [b"message 0"]


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


def play(
    case: Callable[[TwoReplicas], Coroutine[Any, Any, None]],
    seed: int,
    replicas: tuple[BrokerId, ...] = (A, B),
) -> TwoReplicas:
    """Play a case, and print its steps."""
    loop = SimLoop(seed)
    two = TwoReplicas(SimCluster(loop, seed), replicas)

    async def whole() -> None:
        watching = loop.create_task(two.trace.watch())
        await case(two)
        watching.cancel()
        for broker in replicas:
            two.values(broker)

    loop.play(whole())
    print(two.trace.table())
    return two


def test_who_has_more_than_its_leader_and_nothing_else_learns_what_is_committed() -> None:
    """Of the high watermark the leader has told with the answer that said where to cut."""
    two = play(partial(divergence, written=False), 0)
    assert two.values(A) == [b"message 0", b"message 1"]
    assert two.log(A).truncations == 1


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
