"""What simulations play."""

import asyncio
import random
from typing import NamedTuple

from headrace.client.admin import create_topic
from headrace.client.consumer import Consumer
from headrace.client.producer import Producer
from headrace.model.nouns import TopicPartition
from headrace.testing.sim.cluster import SimCluster
from headrace.testing.sim.history import History
from headrace.testing.sim.loop import SimLoop
from headrace.testing.sim.world import WALL_MS

TOPIC = "orders"
PARTITIONS = 6
BROKERS = (1, 2, 3)
PRODUCERS = 3
CONSUMERS = 2
ROUNDS = 8
RECORDS_PER_ROUND = 6

Records = dict[int, list[tuple[int, bytes]]]
"""By partition: offset and value of each record."""


class Outcome(NamedTuple):
    """How a story went."""

    acknowledged: dict[int, set[bytes]]
    """By partition: the values that were acknowledged."""
    read: list[Records]
    """What each consumer saw, in its order."""
    leaders: dict[int, int]
    """Who led each partition."""


async def shared_work(cluster: SimCluster) -> Outcome:
    """Three brokers lead two partitions each; producers write to all, consumers read all of it."""
    await asyncio.gather(*(cluster.start(number) for number in BROKERS))
    admin = cluster.client("admin")
    while len((await admin.metadata([])).brokers) < len(BROKERS):  # noqa: ASYNC110 - as a client
        await asyncio.sleep(0.01)
    await create_topic(admin, TOPIC, partitions=PARTITIONS, replication_factor=1)
    known = await admin.leaders([TOPIC])
    leaders = {index: known.leader(TOPIC, index) for index in range(PARTITIONS)}
    acknowledged: dict[int, set[bytes]] = {index: set() for index in range(PARTITIONS)}
    producing = [_produce(cluster, number, acknowledged) for number in range(PRODUCERS)]
    consuming = [_consume(cluster, number) for number in range(CONSUMERS)]
    *_, first, second = await asyncio.gather(*producing, *consuming)
    admin.close()
    await asyncio.gather(*(cluster.stop(number) for number in BROKERS))
    return Outcome(acknowledged, [one for one in (first, second) if one is not None], leaders)


async def _produce(cluster: SimCluster, number: int, acknowledged: dict[int, set[bytes]]) -> None:
    chance = random.Random(f"producer {number} {cluster.seed}")  # noqa: S311 - not for secrets
    client = cluster.client(f"producer-{number}")
    producer = Producer(client)
    for turn in range(ROUNDS):
        sent = []
        for at in range(RECORDS_PER_ROUND):
            partition = chance.randrange(PARTITIONS)
            value = b"%d.%d.%d" % (number, turn, at) * chance.randrange(1, 400)
            await producer.send(TOPIC, value, timestamp=WALL_MS, partition=partition)
            sent.append((partition, value))
        await producer.flush()
        for partition, value in sent:
            acknowledged[partition].add(value)
        cluster.history.add(
            "acknowledged", client.client_id, turn, sorted(producer.offsets.items())
        )
        await asyncio.sleep(chance.uniform(0, 0.02))
    client.close()


async def _consume(cluster: SimCluster, number: int) -> Records:
    client = cluster.client(f"consumer-{number}")
    positions = {TopicPartition(TOPIC, index): 0 for index in range(PARTITIONS)}
    await client.leaders([TOPIC])
    consumer = Consumer(client, positions)
    seen: Records = {index: [] for index in range(PARTITIONS)}
    count = 0
    while count < PRODUCERS * ROUNDS * RECORDS_PER_ROUND:
        for chunk in await consumer.poll():
            for record in chunk.records():
                seen[chunk.partition.partition].append((record.offset, record.value or b""))
                cluster.history.add(
                    "read", client.client_id, *chunk.partition, record.offset, record.value or b""
                )
                count += 1
    client.close()
    return seen


def play(seed: int) -> tuple[Outcome, History]:
    """Play `shared_work` with a seed."""
    loop = SimLoop(seed)
    cluster = SimCluster(loop, seed)
    outcome = loop.play(shared_work(cluster))
    cluster.history.add("end", loop.steps)
    return outcome, cluster.history
