"""A stopped Kafka 3.9 broker's ZooKeeper and log directory, taken over by ours as they are."""

import json
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from kazoo.client import KazooClient

from headrace.cluster.store import znodes
from headrace.log.text_files import encode_uuid
from headrace.logtools.dump import Row, dump
from headrace.testing.disk import SimDisk
from tests.support.processes.process import BrokerProcess
from tests.support.zookeeper import ZooKeeper

GOLDEN = Path(__file__).parents[1] / "golden"


def kafkas_tree() -> dict[str, bytes]:
    """What a real Kafka's ZooKeeper held, path → content."""
    found: dict[str, bytes] = {}
    for line in (GOLDEN / "zk-tree-kafka-3.9.0.txt").read_text().splitlines():
        path, _, text = line.split(" ", 2)
        found[path] = text.encode()
    for path, content in list(found.items()):  # the file has one partition of each topic
        if path.endswith("/partitions/0/state"):
            above = path.removesuffix("/partitions/0/state")
            for index in json.loads(found[above])["partitions"]:
                found[f"{above}/partitions/{index}"] = b""
                found[f"{above}/partitions/{index}/state"] = content
    return found


@contextmanager
def loaded(hosts: str, chroot: str, nodes: dict[str, bytes]) -> Iterator[KazooClient]:
    """A client of a part of ZooKeeper that holds these nodes."""
    client = KazooClient(hosts)
    client.start()
    try:
        client.create(chroot)
        client.chroot = chroot
        for path in sorted(nodes.keys() - {"/"}):
            client.create(path, nodes[path])
        yield client
    finally:
        client.stop()
        client.close()


def rows(log: Path, name: str) -> Iterator[Row]:
    """Batches and records of a partition's files, as `headrace log dump` has them."""
    for path in sorted((log / name).glob("*.log")):
        disk = SimDisk()
        place = f"/{name}/{path.name}"
        disk.make_directory(f"/{name}")
        disk.replace(place, path.read_bytes())
        file = disk.open(place, writable=False)
        yield from dump(place, file.size(), file.read, records=True)


def records(log: Path, name: str) -> tuple[list[list[Any]], set[int]]:
    """Offset, key and value of all records; the offsets of those that were aborted."""
    found: list[list[Any]] = []
    undecided: dict[object, list[int]] = {}
    aborted: set[int] = set()
    batch: Row = {}
    for row in rows(log, name):
        if "base_offset" in row:
            batch = row
        elif batch["control"]:
            offsets = undecided.pop(batch["producer_id"], [])
            if row["control"] == "abort":
                aborted.update(offsets)
        else:
            found.append([row["offset"], row["key"], row["value"]])
            if batch["transactional"]:
                undecided.setdefault(batch["producer_id"], []).append(found[-1][0])
    return found, aborted


def committed(log: Path) -> dict[tuple[str, str], dict[int, int]]:
    """Offsets that groups have committed, by group and topic."""
    found: dict[tuple[str, str], dict[int, int]] = {}
    for partition in range(5):
        for row in rows(log, f"__consumer_offsets-{partition}"):
            if row.get("type") != "OffsetKey":
                continue
            key, value = row["key"], row["value"]
            assert isinstance(key, dict)
            places = found.setdefault((key["group"], key["topic"]), {})
            if isinstance(value, dict):
                places[key["partition"]] = value["offset"]
            else:
                places.pop(key["partition"], None)
    return {group: places for group, places in found.items() if places}


def read(bootstrap: str, isolation: str) -> list[list[Any]]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": isolation,
         "enable.partition.eof": True, "enable.auto.commit": False, "check.crcs": True}
    )  # fmt: skip
    consumer.assign([TopicPartition("golden", 0, 0)])
    found: list[list[Any]] = []
    while (message := consumer.poll(20)) is not None and message.error() is None:
        found.append([message.offset(), message.key(), message.value()])
    assert message is not None, "it never ends"
    consumer.close()
    return found


def test_a_stopped_kafkas_zookeeper_and_directory_are_gone_on_with(
    tmp_path: Path, zookeeper: ZooKeeper
) -> None:
    with tarfile.open(GOLDEN / "kafka-3.9.0-zk-logdir.tgz") as archive:
        archive.extractall(tmp_path / "untouched", filter="data")
        archive.extractall(tmp_path, filter="data")
    log, untouched = tmp_path / "kdata", tmp_path / "untouched" / "kdata"
    chroot = f"/kafka-{uuid4().hex}"
    nodes = kafkas_tree()
    settings: dict[str, Any] = {
        "log_dirs": log,
        "log_retention_ms": -1,
        "offsets_retention_minutes": 50_000_000,
        "zookeeper_connect": f"{zookeeper.hosts}{chroot}",
    }
    with (
        loaded(zookeeper.hosts, chroot, nodes) as client,
        BrokerProcess(tmp_path / "broker", **settings) as here,
    ):
        known, aborted = records(untouched, "golden-0")
        assert known[-1][0] > 300
        assert aborted
        assert read(here.bootstrap, "read_uncommitted") == known
        seen = [record for record in known if record[0] not in aborted]
        assert read(here.bootstrap, "read_committed") == seen
        groups = committed(untouched)
        assert groups == {("gg", "golden"): {0: 317}}
        for (group, topic), places in groups.items():
            asker = Consumer({"bootstrap.servers": here.bootstrap, "group.id": group})
            found = asker.committed([TopicPartition(topic, index) for index in places], timeout=20)
            assert {place.partition: place.offset for place in found} == places, group
            asker.close()
        admin = AdminClient({"bootstrap.servers": here.bootstrap})
        resource = ConfigResource(ResourceType.TOPIC, "golden")
        configs = admin.describe_configs([resource])[resource].result(20)
        assert configs["index.interval.bytes"].value == "512"
        stated = znodes.decode_state("", client.get("/brokers/topics/golden/partitions/0/state")[0])
        assert (stated.leader, stated.isr) == (0, (0,))
        assert stated.leader_epoch > 0, "a new leader's term"
        assert client.get("/brokers/topics/golden")[0] == nodes["/brokers/topics/golden"]
        node = znodes.decode_topic("", nodes["/brokers/topics/golden"])
        assert node.topic_id is not None
        assert encode_uuid(node.topic_id) in (log / "golden-0" / "partition.metadata").read_text()
        assert int(client.get("/controller_epoch")[0]) > int(nodes["/controller_epoch"])
        assert client.get("/config/users/u")[0] == nodes["/config/users/u"]
    assert not list(log.glob("*-delete")), "deletions under way were ended"
