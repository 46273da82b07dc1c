"""Leaders that are killed or stand still, under an idempotent producer with its own defaults."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.broker_cluster import BrokerCluster
from tests.support.load import Load, kept
from tests.support.replica_files import different_replicas
from tests.support.zookeeper import ZooKeeper

PARTITIONS = 3
PROGRESS = 500
"""Acknowledged records of each partition between two faults, and after the last."""


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: ZooKeeper
) -> Iterator[BrokerCluster]:
    place = tmp_path_factory.mktemp("leader-kills")
    with BrokerCluster(place, zookeeper.hosts, min_insync_replicas=2) as found:
        yield found


@pytest.fixture(autouse=True)
def mended(cluster: BrokerCluster) -> Iterator[None]:
    yield
    cluster.mend()


@contextmanager
def writing(cluster: BrokerCluster, replicas: int = 3) -> Iterator[Load]:
    """A producer to a topic of its own, some records of it acknowledged."""
    topic = f"t-{uuid.uuid4().hex[:8]}"
    cluster.create(topic, PARTITIONS, replicas)
    load = Load(cluster.bootstrap, topic, PARTITIONS, burst=5, pause_seconds=0.01)
    try:
        assert load.goes_on(PROGRESS)
        yield load
    finally:
        load.finish()


def judge(cluster: BrokerCluster, load: Load) -> None:
    """End the load: what was acknowledged is there once, in order, and alike everywhere."""
    load.finish()
    cluster.until_in_sync(load.topic)
    found = kept(load, cluster.bootstrap)
    assert found.holds(), found
    assert load.failed == []
    running = list(cluster.running.values())
    assert different_replicas(running, cluster.bootstrap, load.topic, PARTITIONS) == []


def test_what_was_acknowledged_is_kept_once_and_in_order_through_kills_of_leaders(
    cluster: BrokerCluster,
) -> None:
    with writing(cluster) as load:
        for partition in range(2):
            leader = cluster.leader(load.topic, partition)
            cluster.brokers[leader].kill()
            cluster.until_led(load.topic, by_others_than=[leader])
            assert load.goes_on(PROGRESS), cluster.output[-4000:]
            cluster.mend()
            cluster.until_in_sync(load.topic)
            assert load.goes_on(PROGRESS), cluster.output[-4000:]
        judge(cluster, load)


def test_what_was_acknowledged_is_kept_once_and_in_order_when_a_leader_stands_still(
    cluster: BrokerCluster,
) -> None:
    with writing(cluster) as load, writing(cluster) as other:
        leader = cluster.leader(load.topic)
        cluster.pause(leader)
        for topic in (load.topic, other.topic):
            cluster.until_led(topic, by_others_than=[leader])
        with writing(
            cluster, replicas=2
        ) as fresh:  # who asks anew finds the leaders that there are now
            judge(cluster, fresh)
        cluster.resume(leader)
        for each in (load, other):
            assert each.goes_on(PROGRESS), cluster.output[-4000:]
            cluster.until_in_sync(each.topic)
            judge(cluster, each)
