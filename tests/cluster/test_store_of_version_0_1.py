"""Three brokers of today on the ZooKeeper that three of version 0.1 (5ea511b8) left."""

import json
from pathlib import Path

from kazoo.client import KazooClient

from tests.support.cluster.broker_cluster import until
from tests.support.processes.process import headrace
from tests.support.version_before.compare import differences
from tests.support.version_before.write_broker import GOLDEN, read_json, unpack
from tests.support.version_before.write_cluster import listed, recorded_tree, started
from tests.support.zookeeper import ZooKeeper

REGISTRATIONS = "/brokers/ids/"

NEVER_CHANGED = ("/cluster/id", "/config/users/alice", "/kafka-acl/Topic/plain", "/config/groups/g")


def test_brokers_go_on_with_a_cluster_that_version_0_1_left(
    zookeeper: ZooKeeper, tmp_path: Path
) -> None:
    cluster = started(tmp_path, zookeeper.hosts)
    for number, broker in enumerate(cluster.brokers):
        unpack(GOLDEN / f"cluster-{number}.tar.xz", broker.directory)
    hosts, _, chroot = cluster.connect.partition("/")
    client = KazooClient(hosts)
    client.start()
    client.create(f"/{chroot}")
    client.chroot = f"/{chroot}"
    nodes = recorded_tree()
    for path in sorted(nodes.keys() - {"/"}):
        if path == "/controller" or path.startswith(REGISTRATIONS):
            continue
        client.create(path, nodes[path])
    recorded = read_json(GOLDEN / "cluster.expected.json.gz")
    with cluster:
        assert [*differences(recorded, listed(cluster))] == []
        for path in NEVER_CHANGED:
            assert client.get(path)[0] == nodes[path]
        assert cluster.in_sync("moved")[0][0] == {0, 1, 2}
        faster = ["moved:0=0,1,2", "--throttle", "100000000"]
        headrace(cluster.bootstrap, "cluster", "reassign", *faster)
        cluster.until_in_sync("moved")

        def moved() -> bool:
            topic = json.loads(client.get("/brokers/topics/moved")[0])
            return not topic["adding_replicas"]

        until(moved, "the move that version 0.1 began is over")
        headrace(cluster.bootstrap, "cluster", "reassign", "--verify")
    client.stop()
    client.close()
