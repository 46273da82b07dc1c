"""The broker of these tests, and a connection to it."""

from collections.abc import Iterator

import pytest

from headrace.testing import BrokerThread
from tests.support.rocketmq.client import RemotingClient
from tests.support.rocketmq.kit import SETTINGS, port_of


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    """A broker for Kafka and RocketMQ."""
    with BrokerThread(SETTINGS) as made:
        yield made


@pytest.fixture
def client(broker: BrokerThread) -> Iterator[RemotingClient]:
    """A connection to it."""
    with RemotingClient(port_of(broker)) as made:
        yield made
