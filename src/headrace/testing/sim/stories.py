"""The stories (scenarios) that simulations play."""

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NamedTuple, TypeVar

from headrace.client.admin.groups import Committed, committed
from headrace.client.admin.topics import create_topic
from headrace.client.client import Client
from headrace.client.consumer.consumer import Consumer
from headrace.client.consumer.member import Member
from headrace.client.producer.producer import Producer
from headrace.model.nouns import OFFSETS_TOPIC, TopicPartition
from headrace.testing.sim.cluster import SimCluster
from headrace.testing.sim.history import Broken, History
from headrace.testing.sim.loop import SimLoop
from headrace.testing.sim.replicated import replicated_work
from headrace.testing.sim.world import WALL_MS

TOPIC = "orders"
PARTITIONS = 6
BROKERS = (1, 2, 3)
PRODUCERS = 3
CONSUMERS = 2
GROUP = "pickers"
MEMBERS = 4
ROUNDS = 8
RECORDS_PER_ROUND = 6
READ_SECONDS_MAX = 120.0
"""The most seconds that a consumer waits for records that may have been lost."""

Records = dict[int, list[tuple[int, bytes]]]
"""By partition: offset and value of each record."""


class Outcome(NamedTuple):
    """The result of a story: acknowledged values, read records and leaders."""

    acknowledged: dict[int, set[bytes]]
    """By partition: the values that were acknowledged."""
    read: list[Records]
    """The records that each consumer read, in order."""
    leaders: dict[int, int]
    """The leader of each partition."""


async def shared_work(cluster: SimCluster) -> Outcome:
    """Three brokers lead two partitions each; producers write to all, consumers read all."""
    admin = await _started_with_topic(cluster)
    known = await admin.leaders([TOPIC])
    leaders = {index: known.leader(TOPIC, index) for index in range(PARTITIONS)}
    acknowledged: dict[int, set[bytes]] = {index: set() for index in range(PARTITIONS)}
    producing = [_produce(cluster, number, acknowledged) for number in range(PRODUCERS)]
    consuming = [_consume(cluster, number) for number in range(CONSUMERS)]
    *_, first, second = await asyncio.gather(*producing, *consuming)
    admin.close()
    await asyncio.gather(*(cluster.stop(number) for number in BROKERS))
    return Outcome(
        acknowledged, [result for result in (first, second) if result is not None], leaders
    )


async def power_cuts(cluster: SimCluster) -> Outcome:
    """Cut each broker's power in turn while producers write; then read all records."""
    admin = await _started_with_topic(cluster)
    known = await admin.leaders([TOPIC])
    leaders = {index: known.leader(TOPIC, index) for index in range(PARTITIONS)}
    acknowledged: dict[int, set[bytes]] = {index: set() for index in range(PARTITIONS)}
    producing = [_produce(cluster, number, acknowledged) for number in range(PRODUCERS)]
    await asyncio.gather(*producing, _cut_power_in_turns(cluster))
    read = await _consume(cluster, 0)
    admin.close()
    await asyncio.gather(*(cluster.stop(number) for number in BROKERS))
    return Outcome(acknowledged, [read], leaders)


async def _cut_power_in_turns(cluster: SimCluster) -> None:
    chance = random.Random(f"power {cluster.seed}")  # noqa: S311 - not for secrets
    for number in chance.sample(BROKERS, len(BROKERS)):
        await asyncio.sleep(chance.uniform(0, 0.05))
        await cluster.cut_power(number)
        await cluster.start(number)


async def _started_with_topic(cluster: SimCluster) -> Client:
    """Start three brokers and create a topic; return the client that created it."""
    await asyncio.gather(*(cluster.start(number) for number in BROKERS))
    admin = cluster.client("admin")
    while len((await admin.metadata([])).brokers) < len(BROKERS):  # noqa: ASYNC110 - as a client
        await asyncio.sleep(0.01)
    await create_topic(admin, TOPIC, partitions=PARTITIONS, replication_factor=1)
    return admin


async def _produce(cluster: SimCluster, number: int, acknowledged: dict[int, set[bytes]]) -> None:
    chance = random.Random(f"producer {number} {cluster.seed}")  # noqa: S311 - not for secrets
    client = cluster.client(f"producer-{number}")
    client.retry_seconds = 600.0
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
    until = client.transport.now() + READ_SECONDS_MAX
    while count < PRODUCERS * ROUNDS * RECORDS_PER_ROUND and client.transport.now() < until:
        for chunk in await consumer.poll():
            for record in chunk.records():
                seen[chunk.partition.partition].append((record.offset, record.value or b""))
                cluster.history.add(
                    "read", client.client_id, *chunk.partition, record.offset, record.value or b""
                )
                count += 1
    client.close()
    return seen


async def group_work(cluster: SimCluster) -> dict[int, int]:
    """Let members join and leave a group, read and commit; return the group's offsets."""
    await _started_with_topic(cluster)
    await cluster.controller().ensure_internal_topic(OFFSETS_TOPIC)
    acknowledged: dict[int, set[bytes]] = {index: set() for index in range(PARTITIONS)}
    members = [_take_part(cluster, number) for number in range(MEMBERS)]
    await asyncio.gather(*members, _produce(cluster, 0, acknowledged))
    asking = cluster.client("asking")
    found = await committed(asking, GROUP)
    asking.close()
    await asyncio.gather(*(cluster.stop(number) for number in BROKERS))
    return {partition.partition: committed.offset for partition, committed in found.items()}


async def _take_part(cluster: SimCluster, number: int) -> None:
    """Be a member of the group for a while, longer with a greater `number`."""
    chance = random.Random(f"member {number} {cluster.seed}")  # noqa: S311 - not for secrets
    client = cluster.client(f"member-{number}")
    member = Member(client, GROUP, [TOPIC], session_seconds=10.0)
    await asyncio.sleep(chance.uniform(0, 1))
    until = client.transport.now() + 5 * (number + 1)
    while client.transport.now() < until:
        given = await member.join()
        cluster.history.add("given", client.client_id, member.generation, *given)
        await _read_and_commit(client, member, until)
    await member.leave()
    client.close()


async def _read_and_commit(client: Client, member: Member, until: float) -> None:
    """Read the assigned partitions and commit, until the time is over or a rebalance begins."""
    given = member.assignment
    left = await committed(client, GROUP, given) if given else {}
    consumer = Consumer(
        client,
        {partition: left[partition].offset if partition in left else 0 for partition in given},
    )
    while client.transport.now() < until and await member.heartbeat():
        read = await consumer.poll() if given else []
        done = {chunk.partition: Committed(chunk.next_position) for chunk in read}
        if done and not await member.commit(done):
            return
        await asyncio.sleep(0.1)


class _Bugs(logging.Handler):
    """Makes a play fail on an exception that a broker only logs."""

    def __init__(self, loop: SimLoop) -> None:
        super().__init__(logging.ERROR)
        self._loop = loop

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            self._loop.failures.append(error)


T = TypeVar("T")
Story = Callable[[SimCluster], Coroutine[Any, Any, T]]


def play(
    story: Story[T], seed: int, settings: Mapping[str, str] | None = None
) -> tuple[T, History]:
    """Play a story with a seed; return its result and history. Raises Broken.

    `settings`: every broker's, by Kafka's names.
    """
    loop = SimLoop(seed)
    cluster = SimCluster(loop, seed, settings)
    logger, bugs = logging.getLogger("headrace"), _Bugs(loop)
    logger.addHandler(bugs)
    try:
        outcome = loop.play(story(cluster))
    except Broken as error:
        error.lines = cluster.history.lines
        error.add_note(f"seed {seed}")
        raise
    finally:
        logger.removeHandler(bugs)
    cluster.history.add("end", loop.steps)
    return outcome, cluster.history


STORIES: dict[str, Story[Any]] = {
    "shared_work": shared_work,
    "group_work": group_work,
    "power_cuts": power_cuts,
    "replicated_work": replicated_work,
}
"""The stories by name."""
