"""The story of replicas: three hold all, clients write and read, and much goes wrong meanwhile."""

import asyncio
import random
from collections import Counter
from typing import NamedTuple

from headrace.client.admin import create_topic
from headrace.client.client import Client
from headrace.client.consumer import Consumer
from headrace.client.producer import Producer
from headrace.client.transport import ClientError
from headrace.model.errors import ApiError
from headrace.model.nouns import TopicPartition
from headrace.testing.sim.cluster import SimCluster
from headrace.testing.sim.replica_faults import Faults
from headrace.testing.sim.replica_watch import Broken, ReplicaWatch
from headrace.testing.sim.world import WALL_MS

TOPIC = "ledger"
BROKERS = (1, 2, 3)
FAULT_SECONDS = 20.0
MEND_SECONDS_MAX = 120.0
"""How long all may take to be well again once nothing goes wrong any more (G15)."""
SETTINGS = {
    "replica.fetch.backoff.ms": "500",
    "log.segment.bytes": "1048576",
}


class Told(NamedTuple):
    """How the story went."""

    acknowledged: int
    read: int
    elections: int
    counts: Counter[str]
    """Faults that happened and branches that were taken, by name."""


async def replicated_work(cluster: SimCluster) -> Told:
    """Write and read while brokers fail; then all replicas are equal, and nothing told is lost.

    Broken where a promise was broken.
    """
    chance = random.Random(f"replicated {cluster.seed}")  # noqa: S311 - not for secrets
    count = chance.choice((1, 1, 2))
    cluster.configure({"replica.fetch.max.bytes": chance.choice(("1", "1", "1048576"))})
    await start_with_topic(cluster, count, min_in_sync=chance.choice((1, 2, 2)))
    watch, faults = ReplicaWatch(cluster, TOPIC), Faults(cluster, BROKERS, TOPIC)
    loop = asyncio.get_running_loop()
    clients = [write(cluster, number, count, watch) for number in range(chance.choice((1, 2)))]
    running = [
        loop.create_task(work) for work in (*clients, read(cluster, count, watch), watch.watch())
    ]
    happening = loop.create_task(faults.happen(FAULT_SECONDS))
    await asyncio.wait([happening, *running], return_when=asyncio.FIRST_COMPLETED)
    ended = [task for task in (*running, happening) if task.done()]
    for task in running[:-2]:
        task.cancel()
    if ended == [happening]:
        await well_again(cluster, watch, count)
    for task in (*running, happening):
        task.cancel()
    for task in ended:
        task.result()
    watch.judge(BROKERS, count)
    counts = faults.counts + watch.counts
    cluster.history.add("counted", *sorted(counts.items()))
    await asyncio.gather(*(cluster.stop(number) for number in BROKERS))
    acknowledged, seen = (sum(map(len, told.values())) for told in (watch.acknowledged, watch.read))
    return Told(acknowledged, seen, watch.elections, counts)


async def start_with_topic(cluster: SimCluster, count: int, *, min_in_sync: int) -> None:
    """Start three brokers that know each other, and a topic that all of them hold."""
    await asyncio.gather(*(cluster.start(number) for number in BROKERS))
    admin = cluster.client("admin")
    while len((await admin.metadata([])).brokers) < len(BROKERS):  # noqa: ASYNC110 - as a client
        await asyncio.sleep(0.01)
    config = {"min.insync.replicas": str(min_in_sync)}
    await create_topic(
        admin, TOPIC, partitions=count, replication_factor=len(BROKERS), configs=config
    )
    admin.close()


async def well_again(cluster: SimCluster, watch: ReplicaWatch, count: int) -> None:
    """Wait until all replicas are in sync and at the committed end. Broken (G15)."""
    loop = asyncio.get_running_loop()
    until = loop.time() + MEND_SECONDS_MAX
    while not watch.converged(BROKERS, count):
        if loop.time() > until:
            told = [
                (number, partition.log, partition.role.leader_epoch, partition.log.high_watermark,
                 partition.role.term and sorted(partition.role.term.in_sync),
                 partition.role.closed)
                for number in BROKERS for partition in watch.partitions(number).values()
            ]  # fmt: skip
            raise Broken(f"G15: not well again after {MEND_SECONDS_MAX} s: {told}")
        await asyncio.sleep(0.1)


async def write(cluster: SimCluster, number: int, count: int, watch: ReplicaWatch) -> None:
    """Write records one after the other, each with a value of its own, until cancelled."""
    chance = random.Random(f"writer {number} {cluster.seed}")  # noqa: S311 - not for secrets
    client = patient_client(cluster, f"writer-{number}")
    turn = 0
    while True:
        turn += 1
        index, value = chance.randrange(count), b"%d.%d " % (number, turn) * chance.randrange(1, 40)
        producer = Producer(client, idempotent=False)
        try:
            await producer.send(TOPIC, value, timestamp=WALL_MS, partition=index)
            await producer.flush()
        except (ApiError, ClientError):
            continue  # it may be written, or not
        offset = producer.offsets[TopicPartition(TOPIC, index)]
        watch.note(watch.acknowledged, index, offset, value)
        cluster.history.add("acknowledged", client.client_id, index, offset)
        await asyncio.sleep(chance.uniform(0, 0.1))


async def read(cluster: SimCluster, count: int, watch: ReplicaWatch) -> None:
    """Read all partitions from their begin on, until cancelled."""
    client = patient_client(cluster, "reader")
    positions = {TopicPartition(TOPIC, index): 0 for index in range(count)}
    consumer = Consumer(client, positions)
    while True:
        try:
            chunks = await consumer.poll()
        except (ApiError, ClientError):
            await asyncio.sleep(0.1)
            consumer = Consumer(client, consumer.positions)
            continue
        for chunk in chunks:
            for record in chunk.records():
                watch.note(
                    watch.read, chunk.partition.partition, record.offset, record.value or b""
                )


def patient_client(cluster: SimCluster, name: str) -> Client:
    """Return a client that gives a record up after a while, but not soon."""
    client = cluster.client(name)
    client.retry_seconds, client.request_timeout_seconds = 5.0, 3.0
    return client
