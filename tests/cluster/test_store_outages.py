"""ZooKeeper is gone for a while: replicas that are in sync do without it, and take part again."""

import time
from pathlib import Path

import pytest

from tests.support.broker_cluster import SESSION_MS, BrokerCluster
from tests.support.cluster_load import goes_on, judge, writing
from tests.support.zookeeper import ZooKeeper

OUTAGE_SECONDS = SESSION_MS / 1000 + 4


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
