"""A broker with a listener of AMQP and a client of it, for tests that have none of their own."""

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.testing import BrokerThread
from tests.support.amqp.topics import CONFIG, connected


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    """A broker where guest may come in."""
    with BrokerThread(CONFIG) as running:
        yield running


@pytest.fixture
def connection(broker: BrokerThread) -> Iterator[Any]:
    """A connection of pika's to it."""
    with connected(broker) as opened:
        yield opened
