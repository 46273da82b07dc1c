"""Stock clients against a broker in this process: what they write is what they read."""

import asyncio
import uuid
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

from headrace.testing import BrokerThread

RECORDS = 2_000


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as one:
        yield one


@pytest.fixture
def topic() -> str:
    return f"smoke-{uuid.uuid4().hex[:8]}"


def expected() -> list[bytes]:
    return [b"value %d" % i for i in range(RECORDS)]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_librdkafka_reads_what_it_wrote(broker: BrokerThread, topic: str, acks: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": acks})
    for value in expected():
        producer.produce(topic, value)
    assert producer.flush(30) == 0
    assert _consumed(broker, topic) == expected()


def test_an_idempotent_producer_writes_each_record_once(broker: BrokerThread, topic: str) -> None:
    config = {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True}
    producer = Producer(config)
    for value in expected():
        producer.produce(topic, value)
    assert producer.flush(30) == 0
    assert _consumed(broker, topic) == expected()


def _consumed(broker: BrokerThread, topic: str) -> list[bytes | None]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    found: list[bytes | None] = []
    try:
        while len(found) < RECORDS:
            messages = consumer.consume(500, timeout=20)
            assert messages, f"only {len(found)} came"
            for message in messages:
                assert message.error() is None
                found.append(message.value())
    finally:
        consumer.close()
    return found


def test_kafka_python_reads_what_it_wrote(broker: BrokerThread, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, acks="all")
    for value in expected():
        producer.send(topic, value)
    producer.flush(30)
    producer.close()
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap,
        auto_offset_reset="earliest",
        group_id=topic,
        consumer_timeout_ms=20_000,
    )
    found = []
    for message in consumer:
        found.append(message.value)
        if len(found) == RECORDS:
            break
    consumer.close()
    assert found == expected()


def test_aiokafka_reads_what_it_wrote(broker: BrokerThread, topic: str) -> None:
    async def main() -> list[bytes]:
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, enable_idempotence=True)
        await producer.start()
        for value in expected():
            await producer.send(topic, value)
        await producer.stop()
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap,
            auto_offset_reset="earliest",
            group_id=topic,
        )
        await consumer.start()
        found: list[bytes] = []
        while len(found) < RECORDS:
            found.append((await consumer.getone()).value)
        await consumer.stop()
        return found

    assert asyncio.run(asyncio.wait_for(main(), 60)) == expected()


def test_what_was_acknowledged_is_there_after_a_restart(tmp_path: str) -> None:
    with BrokerThread(directory=str(tmp_path)) as first:
        producer = Producer({"bootstrap.servers": first.bootstrap, "acks": "all"})
        for value in expected():
            producer.produce("kept", value)
        assert producer.flush(30) == 0
    with BrokerThread(directory=str(tmp_path)) as second:
        assert _consumed(second, "kept") == expected()
