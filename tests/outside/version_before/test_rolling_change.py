"""A cluster is upgraded and downgraded broker by broker, under a producer."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.client.load import Load
from tests.support.cluster.broker_cluster import BrokerCluster
from tests.support.cluster.cluster_load import goes_on, judge, writing
from tests.support.processes.process import HEADRACE
from tests.support.zookeeper import ZooKeeper


@pytest.fixture
def old_cluster(
    tmp_path: Path, zookeeper: ZooKeeper, headrace_before: Path
) -> Iterator[BrokerCluster]:
    """Three brokers of the version before."""
    old = [headrace_before] * 3
    with BrokerCluster(tmp_path, zookeeper.hosts, commands=old, min_insync_replicas=2) as found:
        yield found


def change(cluster: BrokerCluster, load: Load, command: Path) -> None:
    """Restart broker after broker with this command."""
    for number, broker in enumerate(cluster.brokers):
        assert broker.stop() == 0
        cluster.until_led(load.topic)
        goes_on(cluster, load)
        cluster.run_next(number, command)
        broker.start()
        cluster.until_in_sync(load.topic)
        goes_on(cluster, load)


@pytest.mark.timeout(900)
def test_rolling_upgrade_and_downgrade_lose_and_double_nothing(
    old_cluster: BrokerCluster, headrace_before: Path
) -> None:
    with writing(old_cluster) as load:
        change(old_cluster, load, HEADRACE)
        change(old_cluster, load, headrace_before)
        judge(old_cluster, load)


@pytest.mark.timeout(900)
def test_upgrade_by_kills_loses_and_doubles_nothing(old_cluster: BrokerCluster) -> None:
    with writing(old_cluster) as load:
        for number, broker in enumerate(old_cluster.brokers):
            broker.kill()
            old_cluster.until_led(load.topic, by_others_than=[number])
            goes_on(old_cluster, load)
            old_cluster.run_next(number, HEADRACE)
            broker.start()
            old_cluster.until_in_sync(load.topic)
        judge(old_cluster, load)
