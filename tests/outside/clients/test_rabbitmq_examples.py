"""The examples with pika, as a reader runs them; with Celery and in Go: `make amqp-test`."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from headrace.testing import BrokerThread
from tests.outside.amqp.address import Address
from tests.outside.amqp.scenarios import example_programs
from tests.outside.matrix.scenario import Scenario


class Doors(NamedTuple):
    """Where a broker listens for either protocol."""

    address: Address
    bootstrap: str


@pytest.fixture(scope="module")
def doors() -> Iterator[Doors]:
    """A broker of both protocols."""
    config = {
        "listeners": "PLAINTEXT://127.0.0.1:0,AMQP://127.0.0.1:0",
        "amqp.guest": "true",
    }
    with BrokerThread(config) as broker:
        port = broker.call(lambda server: server.listeners[1].port)
        yield Doors(Address(port), broker.bootstrap)


@pytest.mark.parametrize(
    "scenario",
    [pytest.param(scenario, id=scenario.claim) for scenario in example_programs.python],
)
def test_an_example_does_what_it_says(doors: Doors, scenario: Scenario) -> None:
    scenario.play(doors.address)


def test_orders_that_pika_placed_are_read_by_a_kafka_consumer(doors: Doors) -> None:
    example_programs.orders_are_read_by_a_kafka_consumer(*doors)
