"""Three brokers in one process: each seed is one history, and in each all promises hold."""

import asyncio
import os
import subprocess
import sys

import pytest

from headrace.client.admin.topics import create_topic
from headrace.client.consumer.consumer import Consumer
from headrace.client.producer.producer import Producer
from headrace.client.transport.port import ClientError
from headrace.model.errors import ApiError, ConfigError
from headrace.model.nouns import TopicPartition
from headrace.server.assembly import Server
from headrace.testing.sim.cluster import SimCluster
from headrace.testing.sim.history import Broken
from headrace.testing.sim.loop import STARTED_SECONDS, SimLoop, Standstill
from headrace.testing.sim.stories import (
    BROKERS,
    CONSUMERS,
    RECORDS_PER_ROUND,
    ROUNDS,
    STORIES,
    group_work,
    play,
    power_cuts,
    shared_work,
)
from headrace.testing.sim.world import WALL_MS


@pytest.mark.parametrize("seed", range(6))
def test_what_is_acknowledged_is_read_once_by_all_through_the_leader_of_its_partition(
    seed: int,
) -> None:
    outcome, _ = play(shared_work, seed)
    assert sorted(set(outcome.leaders.values())) == list(BROKERS)
    assert len(outcome.read) == CONSUMERS
    for records in outcome.read:
        for partition, read in records.items():
            assert [offset for offset, _ in read] == list(range(len(read)))
            values = [value for _, value in read]
            assert sorted(values) == sorted(outcome.acknowledged[partition])


def test_the_same_seed_gives_the_same_history_line_by_line() -> None:
    first, second = play(shared_work, 7)[1], play(shared_work, 7)[1]
    assert first.lines == second.lines
    assert first.digest() == second.digest()


def test_a_broker_that_can_never_start_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(_: object) -> None:
        raise ConfigError("not so")

    async def story(cluster: SimCluster) -> None:
        with pytest.raises(Broken, match="broker 1 cannot start: not so"):
            await cluster.start_again(1)
        assert cluster.loop.time() < STARTED_SECONDS + 100

    monkeypatch.setattr(Server, "start", refused)
    play(story, 1)


def test_different_seeds_give_different_histories() -> None:
    assert len({play(shared_work, seed)[1].digest() for seed in range(5)}) == 5


@pytest.mark.parametrize("name", STORIES)
def test_a_history_is_the_same_in_every_process(name: str) -> None:
    """Whatever order that process's sets have."""
    told = set()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-m", "headrace.testing.sim", "7", name]
        told.add(subprocess.check_output(command, env=environment, text=True, timeout=120))
    history = play(STORIES[name], 7)[1]
    assert told == {f"seed 7, {name}: {len(history.lines)} lines, digest {history.digest()}\n"}


@pytest.mark.parametrize("seed", range(6))
def test_a_group_reads_on_where_it_was_whoever_comes_and_goes(seed: int) -> None:
    committed, history = play(group_work, seed)
    written = [line for line in history.lines if " acknowledged " in line]
    assert sum(committed.values()) == ROUNDS * RECORDS_PER_ROUND
    assert len(written) == ROUNDS
    generations: dict[str, list[str]] = {}
    for line in history.lines:
        _, kind, *words = line.split()
        if kind == "given":
            generations.setdefault(words[1], []).extend(words[2:])
    assert len(generations) > 1
    assert all(len(given) == len(set(given)) for given in generations.values())


def test_a_history_tells_deliveries_disks_store_and_answers() -> None:
    kinds = {line.split()[1] for line in play(shared_work, 3)[1].lines}
    assert kinds >= {"net", "disk", "store", "connect", "acknowledged", "read"}


def test_ranges_of_files_are_sent_where_there_is_no_socket_to_hand_to_the_system() -> None:
    values = [bytes([number]) * 200_000 for number in range(25)]

    async def story(cluster: SimCluster) -> list[bytes]:
        await cluster.start(1)
        client = cluster.client("client")
        await create_topic(client, "large", partitions=1, replication_factor=1)
        await client.leaders(["large"])
        producer = Producer(client)
        for value in values:
            await producer.send("large", value, timestamp=WALL_MS, partition=0)
        await producer.flush()
        consumer = Consumer(client, {TopicPartition("large", 0): 0})
        read: list[bytes] = []
        while len(read) < len(values):
            read += [one.value or b"" for chunk in await consumer.poll() for one in chunk.records()]
        client.close()
        await cluster.stop(1)
        return read

    loop = SimLoop(1)
    assert loop.play(story(SimCluster(loop, 1))) == values


def lost_or_twice(seed: int, settings: dict[str, str] | None = None) -> bool:
    """Whether what is read after power cuts is not, once and in order, what was acknowledged."""
    try:
        outcome, _ = play(power_cuts, seed, settings)
    except (ApiError, ClientError, Standstill):
        return True  # the producers' sequences, or offsets already given out, are gone
    (read,) = outcome.read
    return any(
        [offset for offset, _ in read[partition]] != list(range(len(read[partition])))
        or sorted(value for _, value in read[partition]) != sorted(acknowledged)
        for partition, acknowledged in outcome.acknowledged.items()
    )


@pytest.mark.parametrize("seed", range(8))
def test_what_is_acknowledged_survives_power_cuts_of_every_broker(seed: int) -> None:
    assert not lost_or_twice(seed)


def test_power_cuts_take_what_was_acknowledged_before_it_was_flushed() -> None:
    """With the setting that allows that: else the test above would see nothing."""
    unflushed = {"log.flush.on.ack": "false"}
    assert any(lost_or_twice(seed, unflushed) for seed in range(8))


@pytest.mark.parametrize("seed", range(4))
def test_a_broker_that_comes_back_finds_its_disk_and_leads_what_it_led(seed: int) -> None:
    async def story(cluster: SimCluster) -> list[bytes]:
        for number in (1, 2):
            await cluster.start(number)
        client = cluster.client("client")
        while len((await client.metadata([])).brokers) < 2:  # noqa: ASYNC110 - as a client
            await asyncio.sleep(0.01)
        await create_topic(client, "t", partitions=2, replication_factor=1)
        known = await client.leaders(["t"])
        partition = next(index for index in range(2) if known.leader("t", index) == 2)
        producer = Producer(client)
        for number in range(20):
            await producer.send("t", b"%d" % number, timestamp=WALL_MS, partition=partition)
            if number == 10:
                await producer.flush()
                await cluster.stop(2)
                await cluster.start(2)
        await producer.flush()
        assert (await client.leaders(["t"])).leader("t", partition) == 2
        consumer = Consumer(client, {TopicPartition("t", partition): 0})
        read: list[bytes] = []
        while len(read) < 20:
            read += [one.value or b"" for chunk in await consumer.poll() for one in chunk.records()]
        client.close()
        for number in (1, 2):
            await cluster.stop(number)
        return read

    loop = SimLoop(seed)
    assert loop.play(story(SimCluster(loop, seed))) == [b"%d" % number for number in range(20)]


@pytest.mark.parametrize("seed", range(6))
def test_a_producer_cut_off_from_the_leader_sends_again_and_nothing_is_there_twice(
    seed: int,
) -> None:
    async def story(cluster: SimCluster) -> list[bytes]:
        await cluster.start(1)
        client = cluster.client("client")
        await create_topic(client, "t", partitions=1, replication_factor=1)
        await client.leaders(["t"])
        client.request_timeout_seconds = 2.0
        producer = Producer(client)

        async def trouble() -> None:
            for _ in range(4):
                await asyncio.sleep(0.01)
                cluster.network.cut("broker-1", "client")
                await asyncio.sleep(3)
                cluster.network.mend("broker-1", "client")
                await asyncio.sleep(0.5)
                cluster.network.break_links("client", "broker-1")

        troubling = asyncio.get_running_loop().create_task(trouble())
        for number in range(60):
            await producer.send("t", b"%d" % number, timestamp=WALL_MS, partition=0)
            await producer.flush()
            await asyncio.sleep(0.02)
        await troubling
        consumer = Consumer(client, {TopicPartition("t", 0): 0})
        read: list[bytes] = []
        while len(read) < 60:
            read += [one.value or b"" for chunk in await consumer.poll() for one in chunk.records()]
        client.close()
        await cluster.stop(1)
        return read

    loop = SimLoop(seed)
    cluster = SimCluster(loop, seed)
    assert loop.play(story(cluster)) == [b"%d" % number for number in range(60)]
    assert sum(" connect client" in line for line in cluster.history.lines) > 2
