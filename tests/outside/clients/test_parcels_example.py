"""The parcels example: what pika publishes is in the queue and, once, in the topic."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic

from examples.parcels import post
from headrace.testing import BrokerThread

ROOT = Path(__file__).parents[3]


@pytest.fixture
def addresses() -> Iterator[tuple[str, str]]:
    """A URL for pika and an address for Kafka clients."""
    config = {"listeners": "PLAINTEXT://127.0.0.1:0,AMQP://127.0.0.1:0", "amqp.guest": "true"}
    with BrokerThread(config) as broker:
        port = broker.call(lambda server: server.listeners[1].port)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(post.TOPIC, 1, 1)])[post.TOPIC].result(30)
        yield f"amqp://guest:guest@127.0.0.1:{port}/%2F", broker.bootstrap


def program(name: str, *words: str) -> list[str]:
    """Run a program of the example to its end; return the lines that it has printed."""
    ended = subprocess.run(
        [sys.executable, "-m", f"examples.parcels.{name}", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return ended.stdout.splitlines()


def test_a_parcel_is_in_the_queue_and_once_in_the_topic(addresses: tuple[str, str]) -> None:
    url, bootstrap = addresses
    said = program("post", "--url", url, "ann:1200", "bob:350")
    assert said == ["posted parcel 1 of ann", "posted parcel 2 of bob"]
    assert program("pack", "--url", url, "--count", "2") == ["packed parcel 1", "packed parcel 2"]
    settings = {"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe([post.TOPIC])
    records = consumer.consume(3, timeout=5)
    consumer.close()
    assert [(record.key(), json.loads(record.value() or b"")["grams"]) for record in records] == [
        (b"ann", 1200),
        (b"bob", 350),
    ]


def test_parcels_wait_for_a_packer_that_is_away(addresses: tuple[str, str]) -> None:
    url, _ = addresses
    program("post", "--url", url, "ann:1200")
    program("post", "--url", url, "--first", "2", "bob:350")
    assert program("pack", "--url", url, "--count", "1") == ["packed parcel 1"]
    assert program("pack", "--url", url, "--count", "1") == ["packed parcel 2"]
