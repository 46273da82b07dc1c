"""The column `amqp` of what pika published to a running broker, whose files are read beside it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

import headrace.arrow
from headrace.testing import BrokerThread
from tests.support.amqp.topics import CONFIG, SECONDS, confirming, connected
from tests.support.queues.records import NOTHING


@pytest.fixture
def directory(tmp_path: Path) -> str:
    return str(tmp_path / "log")


@pytest.fixture
def channel(directory: str) -> Iterator[Any]:
    with (
        BrokerThread(CONFIG, directory=directory) as broker,
        connected(broker) as connection,
    ):
        yield confirming(connection)


def rows_of(directory: str, queue: str) -> list[dict[str, Any]]:
    topic = f"__amqp.queue.{queue}"
    rows = headrace.arrow.open(directory, topic, columns=("value", "amqp")).read_all().to_pylist()
    return sorted(rows, key=lambda row: row["value"])


@pytest.mark.parametrize("kind", ["classic", "quorum", "stream", "priorities"])
def test_every_kind_of_durable_queue_has_it(channel: Any, directory: str, kind: str) -> None:
    arguments = {"x-max-priority": 3} if kind == "priorities" else {"x-queue-type": kind}
    channel.queue_declare("q", durable=True, arguments=arguments)
    for number in range(4):
        properties = pika.BasicProperties(delivery_mode=2, priority=number, headers={"n": number})
        channel.basic_publish("amq.direct", "none", b"lost", properties)
        channel.basic_publish("", "q", b"%d" % number, properties)
    place = NOTHING | {"exchange": "", "routing_key": "q", "delivery_mode": 2}
    assert rows_of(directory, "q") == [
        {"value": b"%d" % n, "amqp": place | {"priority": n, "headers": [("n", str(n))]}}
        for n in range(4)
    ]


def test_what_a_queue_says_of_a_dead_letter_is_among_its_headers(
    channel: Any, directory: str
) -> None:
    channel.queue_declare("dead", durable=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    channel.queue_declare("live", durable=True, arguments=arguments)
    channel.basic_publish("", "live", b"x", pika.BasicProperties(delivery_mode=2, type="order"))
    method, _, _ = channel.basic_get("live")
    channel.basic_reject(method.delivery_tag, requeue=False)
    for method, _, _ in channel.consume("dead", inactivity_timeout=SECONDS):
        assert method is not None, "the dead letter did not come"
        break
    channel.cancel()
    (row,) = rows_of(directory, "dead")
    amqp = row["amqp"]
    assert (amqp["routing_key"], amqp["type"]) == ("dead", "order")
    headers = dict(amqp["headers"])
    assert headers["x-first-death-queue"] == "live"
    (death,) = json.loads(headers["x-death"])
    assert (death["queue"], death["reason"], death["count"]) == ("live", "rejected", 1)
