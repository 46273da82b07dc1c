"""The client against a real broker, on plain sockets and on a loop, and while the broker dies."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from itertools import chain, count
from typing import Any

import confluent_kafka
import pytest

from headrace.client.admin import groups
from headrace.client.admin import topics as admin
from headrace.client.admin.groups import Committed
from headrace.client.calls.offsets import EARLIEST, LATEST, MAX_TIMESTAMP, list_offsets
from headrace.client.client import Client
from headrace.client.consumer.consumer import Consumer
from headrace.client.consumer.member import Member
from headrace.client.producer.producer import Producer
from headrace.client.sync import FetchConnection, Wanted, connect, run
from headrace.client.transport.events import EventTransport
from headrace.client.transport.port import Address, parse_bootstrap
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.record.batch import iterate, records
from tests.support.processes.process import BrokerProcess

_NAMES = count()
NOW = time.time_ns() // 1_000_000 - 10_000
"""Not long ago: a broker that starts forgets producers whose last record is a day old, as Kafka."""

Drive = Callable[[Callable[[Client], Coroutine[Any, Any, None]]], None]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("client")) as one:
        yield one


@pytest.fixture(params=["sockets", "loop"])
def drive(request: pytest.FixtureRequest, broker: BrokerProcess) -> Drive:
    """Runs a story with a client on one of the two transports."""

    def on_sockets(story: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
        with connect(broker.bootstrap) as client:
            run(story(client))

    def on_loop(story: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
        async def tell() -> None:
            with Client(EventTransport(), parse_bootstrap(broker.bootstrap)) as client:
                await story(client)
            await asyncio.sleep(0)

        asyncio.run(tell())

    return on_sockets if request.param == "sockets" else on_loop


async def new_topic(client: Client, partitions: int = 2) -> str:
    name = f"client-{next(_NAMES)}"
    await admin.create_topic(client, name, partitions=partitions)
    return name


def test_records_go_in_and_come_out_in_order(drive: Drive) -> None:
    async def story(client: Client) -> None:
        topic = await new_topic(client)
        producer = Producer(client, batch_bytes=2000)
        for number in range(5000):
            await producer.send(topic, b"%d" % number, b"%d" % (number % 7), timestamp=NOW + number)
        await producer.flush()
        assert producer.acknowledged == 5000
        partitions = [TopicPartition(topic, number) for number in range(2)]
        consumer = Consumer(client, dict.fromkeys(partitions, 0))
        by_key: dict[bytes, list[int]] = {}
        while not consumer.caught_up():
            for chunk in await consumer.poll():
                for record in chunk.records():
                    by_key.setdefault(record.key or b"", []).append(int(record.value or b""))
        assert sorted(chain.from_iterable(by_key.values())) == list(range(5000))
        assert all(values == sorted(values) for values in by_key.values())
        ends = await list_offsets(client, dict.fromkeys(partitions, LATEST))
        assert sum(one.offset for one in ends.values()) == 5000
        latest = await list_offsets(client, dict.fromkeys(partitions, MAX_TIMESTAMP))
        assert max(one.timestamp for one in latest.values()) == NOW + 4999

    drive(story)


def test_two_members_share_and_one_takes_over(drive: Drive) -> None:
    async def story(client: Client) -> None:
        topic = await new_topic(client, 4)
        group = f"g-{topic}"
        first = Member(client, group, [topic])
        assert len(await first.join()) == 4
        await first.commit({TopicPartition(topic, 1): Committed(0, metadata="note")})
        left = await groups.committed(client, group)
        assert left[TopicPartition(topic, 1)].metadata == "note"
        told = await groups.describe_group(client, group)
        assert (told.state, len(told.members), told.protocol) == ("Stable", 1, "range")
        await first.leave()
        second = Member(client, group, [topic])
        assert len(await second.join()) == 4
        assert await second.heartbeat()
        await second.leave()
        await groups.delete_group(client, group)
        assert (await groups.describe_group(client, group)).state == "Dead"

    drive(story)


def test_missing_topics_and_partitions_are_errors(drive: Drive) -> None:
    async def story(client: Client) -> None:
        client.retry_seconds = 0.2
        with pytest.raises(ApiError) as caught:
            await list_offsets(client, {TopicPartition("never-made", 0): EARLIEST})
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        topic = await new_topic(client)
        producer = Producer(client)
        with pytest.raises(ApiError, match="partitions 0 to 1, not 2"):
            await producer.send(topic, b"", timestamp=0, partition=2)
        await admin.delete_topic(client, topic)
        with pytest.raises(ApiError):
            await admin.delete_topic(client, topic)

    drive(story)


def test_an_offset_out_of_range_is_reset_or_raised(drive: Drive) -> None:
    async def story(client: Client) -> None:
        topic = await new_topic(client, 1)
        producer = Producer(client)
        await producer.send(topic, b"x", timestamp=NOW)
        await producer.flush()
        where = TopicPartition(topic, 0)
        consumer = Consumer(client, {where: 99}, reset=EARLIEST)
        await consumer.poll()
        assert [len(list(one.records())) for one in await consumer.poll()] == [1]
        with pytest.raises(ApiError, match="OFFSET_OUT_OF_RANGE"):
            await Consumer(client, {where: 99}, reset=None).poll()

    drive(story)


def test_a_fetch_connection_gives_whole_batches_in_one_buffer(broker: BrokerProcess) -> None:
    with connect(broker.bootstrap) as client:
        topic = run(new_topic(client, 1))
        producer = Producer(client, batch_bytes=10_000)

        async def fill() -> None:
            for number in range(20_000):
                await producer.send(topic, b"%08d" % number * 10, timestamp=NOW)
            await producer.flush()

        run(fill())
        metadata = run(client.metadata([topic])).topics[topic]
    host, port = broker.bootstrap.split(":")
    position, seen = 0, 0
    with FetchConnection(Address(host, int(port))) as connection:
        connection.send([Wanted(topic, metadata.topic_id, 0, position)], max_wait_ms=0)
        while seen < 20_000:
            (fetched,) = connection.receive()
            assert fetched.error_code == 0
            assert fetched.high_watermark == 20_000
            for at, header in iterate(fetched.records):
                for record in records(fetched.records[at:]):
                    assert record.value == b"%08d" % record.offset * 10
                    seen += 1
                position = header.base_offset + header.last_offset_delta + 1
            connection.send([Wanted(topic, metadata.topic_id, 0, position)], max_wait_ms=0)
        (empty,) = connection.receive()
        assert len(empty.records) == 0
        assert not connection.closed
    assert connection.closed


def read_by_librdkafka(bootstrap: str, topic: str, partitions: int) -> Counter[int]:
    """All numbers in the topic and how often each is there, as a stock client reads them."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "ride", "enable.partition.eof": True}
    consumer = confluent_kafka.Consumer(settings)
    consumer.assign([confluent_kafka.TopicPartition(topic, at, 0) for at in range(partitions)])
    found: Counter[int] = Counter()
    ends: set[int | None] = set()
    deadline = time.monotonic() + 30
    while len(ends) < partitions and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is None:
            continue
        error = message.error()
        if error is None:
            found[int(message.value() or b"")] += 1
        else:
            assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
            ends.add(message.partition())
    consumer.close()
    return found


def test_an_idempotent_producer_rides_through_kills(tmp_path_factory: Any) -> None:
    with BrokerProcess(tmp_path_factory.mktemp("ride")) as broker:
        with connect(broker.bootstrap, patient=True, request_timeout_seconds=5) as client:
            topic = run(new_topic(client, 3))
            producer = Producer(client, batch_bytes=500)

            async def send(numbers: range) -> None:
                for number in numbers:
                    await producer.send(topic, b"%d" % number, b"%d" % number, timestamp=NOW)
                await producer.dispatch()

            for turn in range(3):
                run(send(range(turn * 3000, turn * 3000 + 3000)))
                broker.kill()
                broker.start()
            run(producer.flush())
            assert producer.acknowledged == 9000
        found = read_by_librdkafka(broker.bootstrap, topic, 3)
        assert found == Counter(range(9000))
