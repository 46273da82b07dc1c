"""Exchanges of hashing and random types on a whole broker, and over a restart."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.wire.amqp.model_methods import ExchangeDeclare, QueueBind
from tests.support.queues.restarts import Start, Started, starting

QUEUES = ("a", "b", "c")
KEYS = {"x-random": "", "x-local-random": "", "x-modulus-hash": "", "x-consistent-hash": "1"}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the broker."""
    yield from starting(tmp_path)


def published(here: Started, exchange: str) -> list[list[str]]:
    """Publish messages with keys of their own; return the bodies that each queue got."""
    for number in range(30):
        here.publish(b"%d" % number, exchange=exchange, key=f"k{number}")
    return [here.gets(name) for name in QUEUES]


def test_types_route_each_message_to_one_queue_and_hashes_as_before_a_restart(
    start: Start,
) -> None:
    first = start()
    for name in QUEUES:
        first.declare(name)
    for exchange, key in KEYS.items():
        first.client.ask(ExchangeDeclare(exchange=exchange, type=exchange, durable=True))
        for name in QUEUES:
            first.client.ask(QueueBind(queue=name, exchange=exchange, routing_key=key))
    before = {exchange: published(first, exchange) for exchange in KEYS}
    second = start()
    after = {exchange: published(second, exchange) for exchange in KEYS}
    for found in (before, after):
        for exchange, bodies in found.items():
            assert sorted(int(each) for of in bodies for each in of) == list(range(30)), exchange
    for exchange in ("x-modulus-hash", "x-consistent-hash"):
        assert before[exchange] == after[exchange]
        assert all(before[exchange])
    assert before["x-random"] != after["x-random"], "the broker's own random numbers"
