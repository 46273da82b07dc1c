"""A story: a share group's members work while the brokers that coordinate it, keep its state and
lead its partitions fail. What was acknowledged is never delivered again, and nothing is lost.
"""

import asyncio
import random
from collections import Counter
from contextlib import suppress
from typing import NamedTuple

from headrace.client.admin.topics import alter_configs, create_topic
from headrace.client.client import Client
from headrace.client.producer.producer import Producer
from headrace.client.transport.port import ClientError
from headrace.model.errors import ApiError
from headrace.model.nouns import OFFSETS_TOPIC, SHARE_STATE_TOPIC
from headrace.testing.sim.cluster import LAG_SECONDS, SimCluster
from headrace.testing.sim.faults.ground import Ground
from headrace.testing.sim.faults.swarm import Faults
from headrace.testing.sim.history import Broken
from headrace.testing.sim.replica_watch import ReplicaWatch
from headrace.testing.sim.world import WALL_MS
from tests.support.sim.coordinated import FAULTS, CoordinatorRequests
from tests.support.sim.share import ACCEPT, GROUP_RESOURCE, RELEASE, Held, SimShareMember

TOPIC, GROUP = "work", "workers"
BROKERS = (1, 2, 3)
PARTS = 2
FAULT_SECONDS = 20.0
MEND_SECONDS_MAX = 200.0
LOCK_SECONDS = 15
QUIET_SECONDS = 20.0
"""More than a lock lasts."""
SETTINGS = {
    "replica.fetch.backoff.ms": "500",
    "offsets.topic.replication.factor": "3",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "group.share.delivery.count.limit": "10",
    "group.share.record.lock.duration.ms": str(LOCK_SECONDS * 1000),
}
Record = tuple[int, int]
"""Partition and offset."""


class ShareRequests(CoordinatorRequests):
    """The same of share groups' topics."""

    topics = (TOPIC, OFFSETS_TOPIC, SHARE_STATE_TOPIC)


class Told(NamedTuple):
    """How the story went."""

    counts: Counter[str]
    written: int
    accepted: int
    in_doubt: int
    epochs: dict[str, int]
    """To which the leader epochs of each topic's partitions come together."""


class Ledger:
    """What was said of each record."""

    def __init__(self) -> None:
        self.accepted: set[Record] = set()
        self.in_doubt: set[Record] = set()
        """Accepted, and nobody was told whether that holds."""
        self.last_delivered = 0.0

    def delivered(self, held: list[Held]) -> None:
        """Raise Broken where one of them was accepted."""
        again = sorted({(one.partition, one.offset) for one in held} & self.accepted)
        if again:
            raise Broken(f"{again} were acknowledged, and are delivered again")
        if held:
            self.last_delivered = asyncio.get_running_loop().time()

    async def accept(self, member: SimShareMember, held: list[Held]) -> None:
        """Have them accepted, and note what is known of it."""
        records = {(one.partition, one.offset) for one in held}
        self.in_doubt |= records
        done = await member.acknowledge(held, ACCEPT)
        self.accepted |= {(one.partition, one.offset) for one in done}


class Worker:
    """One member: it comes back whenever it must."""

    def __init__(self, cluster: SimCluster, number: int, ledger: Ledger) -> None:
        self.chance = random.Random(f"worker {number} {cluster.seed}")
        self.member = SimShareMember(_client(cluster, f"w-{number}"), GROUP, f"w{number}", TOPIC)
        self.ledger = ledger
        self.calm = False
        """Accept all."""

    async def go_on(self) -> None:
        """Fetch and settle, until cancelled."""
        while True:
            try:
                await self.member.beat()
                for _ in range(5):
                    await self._turn()
            except (ApiError, ClientError):
                await asyncio.sleep(0.2)

    async def _turn(self) -> None:
        held = await self.member.fetch()
        self.ledger.delivered(held)
        self.chance.shuffle(held)
        while held:
            count = self.chance.randrange(1, len(held) + 1)
            some, held = held[:count], held[count:]
            if self.calm or self.chance.random() < 0.6:
                await self.ledger.accept(self.member, some)
            else:
                await self.member.acknowledge(some, RELEASE)
        await asyncio.sleep(self.chance.uniform(0, 0.1))


async def shared_records(cluster: SimCluster) -> Told:
    """Let members work while brokers fail; then all is settled, once. Broken."""
    await _started(cluster)
    ledger = Ledger()
    workers = [Worker(cluster, number, ledger) for number in range(3)]
    watch = ReplicaWatch(cluster, TOPIC, PARTS, BROKERS)
    ground = Ground(cluster, BROKERS, ["w-0", "w-1", "w-2"], watch, LAG_SECONDS)
    faults = Faults(ground, ShareRequests, FAULTS)
    loop = asyncio.get_running_loop()
    writing = loop.create_task(_write(cluster))
    working = [loop.create_task(worker.go_on()) for worker in workers]
    happening = loop.create_task(faults.happen(FAULT_SECONDS))
    await asyncio.wait([happening, *working], return_when=asyncio.FIRST_COMPLETED)
    _raise_what_broke(working)
    await happening
    writing.cancel()
    with suppress(asyncio.CancelledError):
        await writing
    for worker in workers:
        worker.calm = True
    ends = await _settled(cluster, working, ledger)
    for task in working:
        task.cancel()
    await asyncio.wait(working)
    written = {(index, offset) for index, end in ends.items() for offset in range(end)}
    lost = sorted(written - ledger.accepted - ledger.in_doubt)
    if lost:
        raise Broken(f"{lost} are never delivered, and were never accepted")
    in_doubt = len(ledger.in_doubt - ledger.accepted)
    told = Told(ground.counts, len(written), len(ledger.accepted), in_doubt, _epochs(cluster))
    await asyncio.gather(*(cluster.stop(number) for number in BROKERS))
    return told


def _raise_what_broke(tasks: "list[asyncio.Task[None]]") -> None:
    for task in tasks:
        if task.done():
            task.result()


async def _settled(
    cluster: SimCluster, working: "list[asyncio.Task[None]]", ledger: Ledger
) -> dict[int, int]:
    """Wait until nothing was delivered for longer than locks last; each partition's end."""
    loop = asyncio.get_running_loop()
    began = ledger.last_delivered = loop.time()
    while loop.time() < ledger.last_delivered + QUIET_SECONDS:
        if loop.time() > began + MEND_SECONDS_MAX:
            raise Broken(f"records still come {MEND_SECONDS_MAX} s after the last fault")
        await asyncio.sleep(0.5)
        _raise_what_broke(working)
    ends = {}
    for server in cluster.brokers.values():
        for (topic, index), partition in server.broker.partitions.items():
            if topic == TOPIC and partition.role.term is not None:
                ends[index] = int(partition.high_watermark)
    if len(ends) < PARTS:
        raise Broken(f"not well again: only {sorted(ends)} have leaders")
    return ends


async def _write(cluster: SimCluster) -> None:
    """Write records one by one, until cancelled."""
    chance = random.Random(f"writer {cluster.seed}")
    client = _client(cluster, "writer")
    producer = Producer(client)
    while True:
        try:
            await producer.send(TOPIC, b"v", timestamp=WALL_MS, partition=chance.randrange(PARTS))
            await producer.flush()
        except (ApiError, ClientError):
            producer = Producer(client)
        await asyncio.sleep(chance.uniform(0, 0.2))


async def _started(cluster: SimCluster) -> None:
    await asyncio.gather(*(cluster.start(number) for number in BROKERS))
    admin = cluster.client("admin")
    while len((await admin.metadata([])).brokers) < len(BROKERS):  # noqa: ASYNC110 - so soon
        await asyncio.sleep(0.01)
    await create_topic(
        admin, TOPIC, partitions=PARTS, replication_factor=3, configs={"min.insync.replicas": "2"}
    )
    for name in (OFFSETS_TOPIC, SHARE_STATE_TOPIC):
        await cluster.controller().ensure_internal_topic(name)
    wanted = {"share.auto.offset.reset": "earliest"}
    await alter_configs(admin, GROUP_RESOURCE, GROUP, set_=wanted)
    admin.close()


def _epochs(cluster: SimCluster) -> dict[str, int]:
    image = cluster.controller().broker.image
    return {
        topic: sum(int(part.leader_epoch) for part in image.topics[topic].partitions)
        for topic in (TOPIC, OFFSETS_TOPIC, SHARE_STATE_TOPIC)
    }


def _client(cluster: SimCluster, name: str) -> Client:
    client = cluster.client(name)
    client.retry_seconds, client.request_timeout_seconds = 8.0, 30.0
    return client
