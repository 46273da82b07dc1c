"""More brokers than replicas: partitions are spread, and each is where it is said to be."""

from pathlib import Path
from typing import Any

from tests.support.client.load import Load, kept
from tests.support.cluster.broker_cluster import CALM_SESSION_MS, BrokerCluster
from tests.support.cluster.replica_files import different_replicas, folders_of
from tests.support.zookeeper import ZooKeeper

BROKERS = 8
TOPICS = {"thirteen": 13, "nineteen": 19}


def test_thirty_two_partitions_on_eight_brokers_are_each_written_to_and_read(
    tmp_path: Path, zookeeper: ZooKeeper
) -> None:
    calm: dict[str, Any] = {"zookeeper_session_timeout_ms": CALM_SESSION_MS}
    with BrokerCluster(tmp_path, zookeeper.hosts, count=BROKERS, **calm) as cluster:
        for topic, partitions in TOPICS.items():
            cluster.create(topic, partitions, replicas=1)
            load = Load(cluster.bootstrap, topic, partitions, burst=1, pause_seconds=0.02)
            assert load.goes_on(20)
            load.finish()
            found = kept(load, cluster.bootstrap)
            assert found.holds(), found
            assert load.failed == []
            assert different_replicas(cluster.brokers, cluster.bootstrap, topic, partitions) == []
        held = [
            [folder.name for topic in TOPICS for folder in folders_of(broker, f"{topic}-*")]
            for broker in cluster.brokers
        ]
        everything = {
            f"{topic}-{index}" for topic, count in TOPICS.items() for index in range(count)
        }
        assert sorted(name for names in held for name in names) == sorted(everything)
        assert {len(names) for names in held} <= {3, 4, 5}
