"""One ZooKeeper, and an ensemble of three, for all tests of this folder; brokers for each file."""

import gc
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster.amqp_cluster import AmqpCluster
from tests.support.cluster.broker_cluster import BrokerCluster
from tests.support.zookeeper import ZooKeeper


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """A server that no test pauses or ends; each test takes a chroot of its own."""
    with ZooKeeper(tmp_path_factory.mktemp("zookeeper")) as found:
        yield found


@pytest.fixture(scope="session")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """Three servers that no test pauses or ends."""
    with ZooKeeper(tmp_path_factory.mktemp("ensemble"), 3) as found:
        yield found


@pytest.fixture(scope="module")
def commands() -> list[Path]:
    """The headrace that each broker runs, where it is not ours; `make version-before` mixes."""
    return []


@pytest.fixture(scope="module")
def three_brokers(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: ZooKeeper
) -> Iterator[BrokerCluster]:
    """Three brokers whose topics ask for two in-sync replicas."""
    place = tmp_path_factory.mktemp("brokers")
    with BrokerCluster(place, zookeeper.hosts, min_insync_replicas=2) as found:
        yield found


@pytest.fixture
def cluster(three_brokers: BrokerCluster) -> Iterator[BrokerCluster]:
    """Three brokers that a test may pause, stop and kill: all run again for the next one."""
    yield three_brokers
    three_brokers.mend()


@pytest.fixture(autouse=True)
def sockets_that_clients_forget() -> Iterator[None]:
    """Collect what stock clients leave of connections to killed brokers, within their own test.

    And what was still held then: by fixtures of its file, or by why it was skipped.
    """
    collect_sockets()
    yield
    collect_sockets()


def collect_sockets() -> None:
    """Collect sockets that nobody closed (kafka-python 3 drops those that were refused)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="module")
def brokers(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: ZooKeeper
) -> Iterator[AmqpCluster]:
    """Three brokers that serve AMQP."""
    with AmqpCluster(tmp_path_factory.mktemp("amqp"), zookeeper.hosts) as found:
        yield found


@pytest.fixture
def amqp(brokers: AmqpCluster) -> Iterator[AmqpCluster]:
    """Three brokers that serve AMQP, all of which run again for the next test."""
    yield brokers
    brokers.mend()
