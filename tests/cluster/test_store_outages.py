"""ZooKeeper is gone for a while: replicas that are in sync do without it, and take part again."""

import signal
import time
from pathlib import Path

import pytest

from tests.support.cluster.broker_cluster import SESSION_MS, BrokerCluster
from tests.support.cluster.cluster_load import goes_on, judge, writing
from tests.support.zookeeper import ZooKeeper

OUTAGE_SECONDS = SESSION_MS / 1000 + 4
STOP_SECONDS_MAX = 3 * SESSION_MS / 1000 + 30
"""Three attempts to hand over, then the parts of a stop that wait for anything."""


@pytest.mark.parametrize("how", ["killed", "standing still"])
def test_leaders_with_others_in_sync_go_on_while_zookeeper_is_gone_and_nothing_is_lost(
    tmp_path: Path, how: str
) -> None:
    with (
        ZooKeeper(tmp_path / "zookeeper") as store,
        BrokerCluster(tmp_path, store.hosts, min_insync_replicas=2) as cluster,
        writing(cluster) as load,
    ):
        if how == "killed":
            store.kill()
        else:
            store.pause()
        back = time.monotonic() + OUTAGE_SECONDS
        while time.monotonic() < back:
            goes_on(cluster, load)
        if how == "killed":
            store.start()
        else:
            store.resume()
        cluster.until_all_are_here()
        cluster.until_led(load.topic)
        cluster.until_in_sync(load.topic)
        goes_on(cluster, load)
        with writing(cluster) as fresh:  # there is a controller, which creates topics
            judge(cluster, fresh)
        judge(cluster, load)


def test_brokers_that_are_stopped_while_zookeeper_is_killed_all_end(tmp_path: Path) -> None:
    with (
        ZooKeeper(tmp_path / "zookeeper") as store,
        BrokerCluster(tmp_path, store.hosts) as cluster,
    ):
        cluster.create("t", 6)
        processes = [broker.process for broker in cluster.brokers]
        store.kill()
        began = time.monotonic()
        for process in processes:
            assert process is not None
            process.send_signal(signal.SIGTERM)
        assert [process.wait(STOP_SECONDS_MAX) for process in processes if process] == [0, 0, 0]
        assert time.monotonic() - began < STOP_SECONDS_MAX
        for broker in cluster.brokers:
            broker.process = None
            assert (broker.directory / "log" / ".kafka_cleanshutdown").exists()
