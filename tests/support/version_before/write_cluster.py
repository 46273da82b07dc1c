"""Write tests/golden/version-0.1/cluster*: the store of three brokers, and their directories.

Run it from this checkout with the Python of the version to be recorded:

    ../before/.venv/bin/python -m tests.support.version_before.write_cluster
"""

import gzip
import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from kazoo.client import KazooClient

from tests.support.cluster.broker_cluster import BrokerCluster
from tests.support.processes.process import HEADRACE
from tests.support.version_before.fill_kafka import until
from tests.support.version_before.write_broker import GOLDEN, pack, write_json
from tests.support.zookeeper import ZooKeeper

TREE = GOLDEN / "cluster-tree.txt.gz"
LISTED: dict[str, list[str]] = {
    "configs": ["config", "list"],
    "quotas": ["quota", "list"],
    "acls": ["acl", "list"],
    "users": ["user", "list"],
}
"""Lists that are read back from the store."""
COMMANDS = """\
topic create plain --partitions 3 --replicas 3
topic create narrow --partitions 2 --replicas 1 --config retention.ms=86400000
topic create gone --partitions 1 --replicas 2
topic create moved --partitions 1 --replicas 1
config set topic plain max.message.bytes=2000000
config set broker default num.replica.fetchers=3
config set broker 1 log.cleaner.backoff.ms=20000
config set group g consumer.session.timeout.ms=50000
config set client-metrics m interval.ms=60000
quota set producer_byte_rate=100000000 --user alice
quota set consumer_byte_rate=200000000 --client-id slow
quota set connection_creation_rate=1000 --ip 127.0.0.9
acl create --allow-principal User:alice --producer --topic plain
acl create --allow-principal User:alice --consumer --topic pl --group g --prefixed
acl create --deny-principal User:bob --operation read --topic narrow --host 10.0.0.9
topic delete gone --yes
""".splitlines()


def ask(cluster: BrokerCluster, *words: str) -> str:
    """Run the recorded version's command on the cluster; return its standard output."""
    line = [str(HEADRACE), *words, "-b", cluster.bootstrap]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout


def fill(cluster: BrokerCluster, place: Path) -> None:
    """Write each kind of node; a reassignment is under way at the end."""
    secret = place / "password.txt"
    secret.write_text("alice-secret\n")
    ask(cluster, "user", "create", "alice", "--password-file", str(secret))
    for command in COMMANDS:
        ask(cluster, *command.split())
    settings = {"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True}
    producer = Producer(settings)
    for _ in range(100):
        producer.produce("moved", bytes(10_000))
    assert producer.flush(60) == 0
    ask(cluster, "cluster", "reassign", "moved:0=0,1,2", "--throttle", "1000")
    until(lambda: "gone" not in ask(cluster, "topic", "list"), "gone is deleted")


def nodes(client: KazooClient, path: str = "/") -> Iterator[tuple[str, int, bytes]]:
    """Path, version and content of each node below, in the paths' order."""
    content, stat = client.get(path)
    yield path, stat.version, content
    for name in sorted(client.get_children(path)):
        yield from nodes(client, f"{path.rstrip('/')}/{name}")


def recorded_tree() -> dict[str, bytes]:
    """The nodes of the golden file, path → content."""
    lines = gzip.decompress(TREE.read_bytes()).decode().splitlines()
    split = (line.split(" ", 2) for line in lines)
    return {path: content.encode() for path, _, content in split}


def listed(cluster: BrokerCluster) -> dict[str, Any]:
    """LISTED, without what brokers' own server.properties say; and topics with their ids."""
    found = {
        name: sorted(json.loads(ask(cluster, *words, "--json")), key=str)
        for name, words in LISTED.items()
    }
    for each in found["configs"]:
        for name in [n for n, c in each["configs"].items() if c["source"] == "static"]:
            del each["configs"][name]
    topics = json.loads(ask(cluster, "topic", "list", "--json"))
    return {**found, "topics": sorted(topics, key=lambda topic: str(topic["topic"]))}


def started(place: Path, hosts: str) -> BrokerCluster:
    """Three brokers whose authorizer lets everybody who asks here do everything."""
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    return BrokerCluster(
        place, hosts, authorizer_class_name=authorizer, super_users="User:ANONYMOUS"
    )


def main() -> None:
    """Fill a cluster; dump its part of ZooKeeper while it runs; kill it, pack its directories."""
    GOLDEN.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        with ZooKeeper(place / "zk") as zookeeper, started(place, zookeeper.hosts) as cluster:
            fill(cluster, place)
            client = KazooClient(cluster.connect)
            client.start()
            lines = [
                f"{path} v{version} {data.decode()}\n" for path, version, data in nodes(client)
            ]
            TREE.write_bytes(gzip.compress("".join(lines).encode(), 9, mtime=0))
            write_json(GOLDEN / "cluster.expected.json.gz", listed(cluster))
            client.stop()
            client.close()
            cluster.kill()
            for number in range(3):
                pack(place / f"broker-{number}" / "log", GOLDEN / f"cluster-{number}.tar.xz")


if __name__ == "__main__":
    main()
