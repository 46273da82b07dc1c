"""Stock clients on a SASL_PLAINTEXT listener: they produce and consume by each mechanism.

With a wrong password they raise their own error for that, and no secret is seen anywhere.
"""

import asyncio
import gc
import logging
import re
import time
from collections.abc import Callable, Iterator

import pytest

from headrace.testing.broker import BrokerThread
from tests.support.sasl_kit import PASSWORD, USER, add_scram_users, guarded

pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"  # sockets that clients leave open that fail
)
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
PLANTED = "planted-secret-4711"
VALUES = [b"1", b"2", b"3"]
Client = Callable[[str, str, str, str], list[bytes]]
"""Writes `VALUES` to a topic and reads them: bootstrap, mechanism, password, topic."""


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Have what clients leave open that fail collected here, where it is expected."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with guarded(auto_create_topics_enable="true") as running:
        add_scram_users(running)
        yield running


def librdkafka(bootstrap: str, mechanism: str, password: str, topic: str) -> list[bytes]:
    from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

    errors: list[KafkaError] = []
    common = {
        "bootstrap.servers": bootstrap, "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism, "sasl.username": USER, "sasl.password": password,
        "error_cb": errors.append, "log_level": 0,
    }  # fmt: skip
    producer = Producer({**common, "message.timeout.ms": 15_000})
    for value in VALUES:
        producer.produce(topic, value)
    give_up = time.monotonic() + 15
    while producer.poll(0.1) >= 0 and len(producer) and time.monotonic() < give_up:
        for error in errors:
            if error.code() == KafkaError._AUTHENTICATION:
                producer.purge()
                raise KafkaException(error)
    assert not len(producer)
    consumer = Consumer({**common, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes] = []
    while len(found) < len(VALUES) and time.monotonic() < give_up + 15:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            found.append(message.value())
    consumer.close()
    return found


def kafka_python(bootstrap: str, mechanism: str, password: str, topic: str) -> list[bytes]:
    from kafka import KafkaConsumer, KafkaProducer

    common = {
        "bootstrap_servers": bootstrap, "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism, "sasl_plain_username": USER, "sasl_plain_password": password,
    }  # fmt: skip
    producer = KafkaProducer(**common)
    for value in VALUES:
        producer.send(topic, value).get(15)
    producer.close()
    consumer = KafkaConsumer(
        topic, auto_offset_reset="earliest", consumer_timeout_ms=5000, **common
    )
    found = [next(consumer).value for _ in VALUES]
    consumer.close()
    return found


def aiokafka(bootstrap: str, mechanism: str, password: str, topic: str) -> list[bytes]:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    common = {
        "bootstrap_servers": bootstrap, "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism, "sasl_plain_username": USER, "sasl_plain_password": password,
    }  # fmt: skip

    async def story() -> list[bytes]:
        producer = AIOKafkaProducer(**common)
        try:
            await producer.start()
            for value in VALUES:
                await producer.send_and_wait(topic, value)
        finally:
            await producer.stop()
        consumer = AIOKafkaConsumer(topic, auto_offset_reset="earliest", **common)
        await consumer.start()
        try:
            return [(await consumer.getone()).value for _ in VALUES]
        finally:
            await consumer.stop()

    return asyncio.run(asyncio.wait_for(story(), 60))


CLIENTS = [librdkafka, kafka_python, aiokafka]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__)
def test_stock_clients_produce_and_consume(
    broker: BrokerThread, client: Client, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "headrace")
    topic = f"{client.__name__}-{mechanism.lower()}"
    assert client(broker.bootstrap, mechanism, PASSWORD, topic) == VALUES
    assert PASSWORD not in caplog.text


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__)
def test_with_a_wrong_password_stock_clients_say_so(
    broker: BrokerThread, client: Client, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "headrace")
    with pytest.raises(Exception) as raised:  # noqa: PT011 - each client has its own
        client(broker.bootstrap, mechanism, PLANTED, "refused")
    # kafka-python and aiokafka raise that they reach nobody, and log why.
    of_client = [
        record.getMessage() for record in caplog.records if not record.name.startswith("headrace")
    ]
    told = f"{type(raised.value).__name__} {raised.value} {' '.join(of_client)}"
    assert re.search("authentication.*failed", told, re.IGNORECASE)
    said = [line for line in caplog.messages if f"authentication by {mechanism} failed" in line]
    assert said
    assert all(line.endswith(f"wrong password: '{USER}'") for line in said)
    assert PLANTED not in "".join(
        record.getMessage() for record in caplog.records if record.name.startswith("headrace")
    )
