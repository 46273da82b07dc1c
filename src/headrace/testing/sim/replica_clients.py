"""Clients of the story of replicas: producers, a consumer, and requests for end offsets."""

import asyncio
import random

from headrace.client.calls.call import HotCall
from headrace.client.client import Client
from headrace.client.consumer.consumer import Consumer
from headrace.client.producer.producer import Producer
from headrace.client.transport.port import ClientError
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.testing.sim.cluster import SimCluster
from headrace.testing.sim.replica_watch import ONCE, ReplicaWatch
from headrace.testing.sim.world import WALL_MS
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.hot import list_offsets

READER = "reader"
WRITERS = ("writer-0", "writer-1")
BATCH_RECORDS = (1, 1, 1, 1, 2, 12)
"""Choices for the number of records in a batch."""
ASK_SECONDS = 0.3
"""Seconds between two requests for end offsets."""


async def write(cluster: SimCluster, name: str, watch: ReplicaWatch) -> None:
    """Write batches one after another until cancelled; each record has a unique value."""
    chance = random.Random(f"{name} {cluster.seed}")  # noqa: S311 - not for secrets
    client = patient_client(cluster, name)
    idempotent, pause = chance.random() < 0.6, chance.choice((0.1, 0.2, 0.4))
    prefix, turn = (ONCE if idempotent else b"") + name.encode(), 0
    producer: Producer | None = None
    while True:
        turn += 1
        index, count = chance.randrange(watch.count), chance.choice(BATCH_RECORDS)
        values = [
            b"%s.%d.%d " % (prefix, turn, at) * chance.randrange(1, 20) for at in range(count)
        ]
        asked_at = cluster.loop.time()
        now_ms = WALL_MS + int(asked_at * 1000)
        producer = producer or Producer(client, idempotent=idempotent)
        try:
            for value in values:
                await producer.send(watch.topic, value, timestamp=now_ms, partition=index)
            await producer.flush()
        except (ApiError, ClientError) as error:
            watch.counts["writes given up"] += 1
            cluster.history.add("given up", name, index, error)
            producer = None  # the batch may be written or not
            continue
        end = producer.offsets[TopicPartition(watch.topic, index)] + 1
        for offset, value in enumerate(values, end - count):
            watch.note_acknowledged(index, offset, value, asked_at)
        cluster.history.add("acknowledged", name, index, end - count, count)
        await asyncio.sleep(chance.uniform(0, pause))


async def read(cluster: SimCluster, watch: ReplicaWatch) -> None:
    """Consume all partitions from their first offset, until cancelled."""
    client = patient_client(cluster, READER)
    positions = {TopicPartition(watch.topic, index): 0 for index in range(watch.count)}
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
                watch.note_read(chunk.partition.partition, record.offset, record.value or b"")


async def ask_for_ends(cluster: SimCluster, watch: ReplicaWatch) -> None:
    """Request the end offsets of all partitions from their leaders, until cancelled."""
    client = patient_client(cluster, "asker")
    while True:
        await asyncio.sleep(ASK_SECONDS)
        for index in range(watch.count):
            try:
                code = await _ask_for_end(client, watch.topic, index)
            except (ApiError, ClientError):
                continue
            watch.counts["ends not known yet"] += code == ErrorCode.OFFSET_NOT_AVAILABLE


async def _ask_for_end(client: Client, topic: str, index: int) -> int:
    """Send one ListOffsets request; return the error code."""
    known = await client.metadata([topic])
    asked = list_offsets.PartitionRequest(index, list_offsets.LATEST, -1)
    request = list_offsets.ListOffsetsRequest(-1, 0, [list_offsets.TopicRequest(topic, [asked])])
    call = HotCall(
        ApiKey.LIST_OFFSETS, list_offsets.encode_request, list_offsets.decode_response, request
    )
    response = await client.ask(await client.broker(known.leader(topic, index)), call)
    return response.topics[0].partitions[0].error_code


def patient_client(cluster: SimCluster, name: str) -> Client:
    """Return a client that retries for 5 seconds."""
    client = cluster.client(name)
    client.retry_seconds, client.request_timeout_seconds = 5.0, 3.0
    return client
