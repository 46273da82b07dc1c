"""From one node to three: a single broker's metadata brought into ZooKeeper, and others join it."""

import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from kazoo.client import KazooClient

from headrace.cluster.store import znodes
from headrace.log import file_names
from tests.support.cluster.broker_cluster import until
from tests.support.processes.process import HEADRACE, BrokerProcess
from tests.support.zookeeper import ZooKeeper

FEW: dict[str, Any] = {
    "offsets_topic_num_partitions": 2,
    "transaction_state_log_num_partitions": 2,
    "num_partitions": 2,
    "zookeeper_session_timeout_ms": 6_000,
}
INTERNAL = ("__consumer_offsets", "__transaction_state")


@pytest.fixture
def connect(zookeeper: ZooKeeper) -> str:
    """A part of ZooKeeper that nobody has used."""
    return f"{zookeeper.hosts}/kafka-{uuid4().hex}"


def headrace(*words: str, code: int = 0) -> str:
    """What our command says, both ways."""
    done = subprocess.run([str(HEADRACE), *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def migrate(here: BrokerProcess, connect: str, *words: str, code: int = 0) -> str:
    directory = str(here.directory / "log")
    return headrace("cluster", "migrate", "--data", directory, "--zookeeper", connect, *words,
                    code=code)  # fmt: skip


def refusal(here: BrokerProcess) -> str:
    """The one line with which a broker ends instead of starting."""
    said = len(here.output)
    with pytest.raises(AssertionError):
        here.start()
    (line,) = here.output[said:].splitlines()
    return line


def tree(connect: str) -> dict[str, bytes]:
    """What ZooKeeper holds; nothing where there is no such chroot."""
    hosts, _, chroot = connect.partition("/")
    client = KazooClient(hosts)
    client.start()
    found: dict[str, bytes] = {}
    below = [f"/{chroot}"] if client.exists(f"/{chroot}") else []
    while below:
        path = below.pop()
        found[path.removeprefix(f"/{chroot}")] = client.get(path)[0]
        below += [f"{path}/{name}" for name in client.get_children(path)]
    client.stop()
    client.close()
    return found


def alter(here: BrokerProcess, kind: ResourceType, name: str, key: str, value: str) -> None:
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(kind, name, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": here.bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(20)


def transact(bootstrap: str, values: list[str]) -> None:
    """Write a transaction as always the same producer."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "x"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in values:
        producer.produce("t", value)
    producer.commit_transaction(30)


def consumer(bootstrap: str) -> Consumer:
    return Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "error",
         "enable.auto.commit": False}
    )  # fmt: skip


def read(bootstrap: str, count: int) -> list[str]:
    """All of topic t, from its beginning: `count` values, and no more of them."""
    reader = consumer(bootstrap)
    reader.assign([TopicPartition("t", index, 0) for index in range(2)])
    found: list[str] = []
    deadline = time.monotonic() + 30
    while len(found) < count and time.monotonic() < deadline:
        found += [message.value().decode() for message in reader.consume(1000, 0.3)]
    found += [message.value().decode() for message in reader.consume(1000, 0.5)]
    reader.close()
    return found


def committed(bootstrap: str) -> list[int]:
    reader = consumer(bootstrap)
    found = reader.committed([TopicPartition("t", index) for index in range(2)], timeout=30)
    reader.close()
    return [place.offset for place in found]


def fill(here: BrokerProcess) -> None:
    """Topics, settings, a group's offsets and a transaction."""
    admin = AdminClient({"bootstrap.servers": here.bootstrap})
    admin.create_topics([NewTopic("t", 2, config={"segment.bytes": "20000"})])["t"].result(20)
    alter(here, ResourceType.TOPIC, "t", "retention.ms", "86400000")
    alter(here, ResourceType.BROKER, "0", "log.cleaner.threads", "2")
    transact(here.bootstrap, [str(number) for number in range(500)])
    reader = consumer(here.bootstrap)
    reader.commit(
        offsets=[TopicPartition("t", 0, 7), TopicPartition("t", 1, 9)], asynchronous=False
    )
    reader.close()


class Load:
    """A producer that goes on until it is told to end; what was acknowledged to it."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: list[str] = []
        self.failed: list[str] = []
        self._ended = threading.Event()
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5}
        self._producer = Producer(settings)
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        number = 0
        while not self._ended.wait(0.005):
            value = f"load {number}"
            self._producer.produce("t", value, partition=number % 2, on_delivery=self._answered)
            self._producer.poll(0)
            number += 1
        assert self._producer.flush(60) == 0

    def _answered(self, error: Any, message: Any) -> None:
        (self.acknowledged if error is None else self.failed).append(message.value().decode())

    @contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._ended.set()
            self._thread.join(90)


def test_a_single_node_becomes_a_cluster_of_three_under_load(tmp_path: Path, connect: str) -> None:
    single = BrokerProcess(tmp_path / "0", **FEW)
    with single:
        fill(single)
        assert "its broker runs: stop it first" in migrate(single, connect, code=2)
    place = single.directory / "log"
    told = migrate(single, connect, "--dry-run")
    assert "create /brokers/topics/t {" in told
    assert "3 topics, 6 partitions" in told
    assert tree(connect) == {}
    first = BrokerProcess(single.directory, single.port, zookeeper_connect=connect, **FEW)
    assert (
        f"bring them there first, by headrace cluster migrate --log-dirs {place} --zookeeper"
        in (refusal(first))
    )
    with single:  # it was only tried
        pass

    assert "3 topics, 6 partitions: in ZooKeeper" in migrate(single, connect)
    before = tree(connect)
    assert znodes.MIGRATION not in before
    assert not (place / file_names.METADATA).exists()
    assert f"start it with --zookeeper {connect}" in refusal(single)
    assert "(it was)" in migrate(single, connect)
    assert tree(connect) == before

    with ExitStack() as brokers:
        brokers.enter_context(first)
        goes_on(first, connect, before)
        others = [
            BrokerProcess(
                tmp_path / str(number), zookeeper_connect=connect, broker_id=number, **FEW
            )
            for number in (1, 2)
        ]
        bootstrap = ",".join(here.bootstrap for here in (first, *others))
        load = Load(bootstrap)
        with load.running():
            for other in others:
                brokers.enter_context(other)
            spread(first)
            first.kill()
            until(lambda: led_by(others[0]) <= {1, 2}, "the others lead")
            after = len(load.acknowledged)
            until(lambda: len(load.acknowledged) > after + 100, "writes go on")
        assert load.failed == []
        bootstrap = ",".join(other.bootstrap for other in others)
        assert committed(bootstrap) == [7, 9]
        transact(bootstrap, ["of three"])
        wanted = [str(number) for number in range(500)] + ["of one in ZooKeeper", "of three"]
        wanted += load.acknowledged
        assert sorted(read(bootstrap, len(wanted))) == sorted(wanted)


def goes_on(here: BrokerProcess, connect: str, before: dict[str, bytes]) -> None:
    """Groups, transactions, settings and producer ids go on where they were."""
    assert committed(here.bootstrap) == [7, 9]
    transact(here.bootstrap, ["of one in ZooKeeper"])
    assert len(read(here.bootstrap, 501)) == 501
    admin = AdminClient({"bootstrap.servers": here.bootstrap})
    resource = ConfigResource(ResourceType.TOPIC, "t")
    found = admin.describe_configs([resource])[resource].result(20)
    assert before["/config/brokers/0"].endswith(b'{"log.cleaner.threads":"2"}}')
    assert (found["retention.ms"].value, found["segment.bytes"].value) == ("86400000", "20000")
    now = tree(connect)
    assert now["/brokers/topics/t"] == before["/brokers/topics/t"]
    assert int(now["/controller_epoch"]) > int(before["/controller_epoch"])
    for path in (znodes.state_path("t", 0), znodes.state_path("t", 1)):
        was, now_is = (znodes.decode_state(path, nodes[path]) for nodes in (before, now))
        assert now_is.leader_epoch > was.leader_epoch
        assert now_is.isr == (0,)
    producer = Producer({"bootstrap.servers": here.bootstrap, "enable.idempotence": True})
    producer.produce("u", b"needs a producer id")
    assert producer.flush(30) == 0
    path = znodes.PRODUCER_ID_BLOCK
    former, block = (znodes.decode_producer_ids(nodes[path]) for nodes in (before, tree(connect)))
    assert block.first > former.last, "no id is given twice"


def led_by(here: BrokerProcess) -> set[int]:
    """Who leads what was given three replicas."""
    topics = AdminClient({"bootstrap.servers": here.bootstrap}).list_topics(timeout=10).topics
    return {
        partition.leader
        for name in ("t", *INTERNAL)
        for partition in topics[name].partitions.values()
    }


def spread(here: BrokerProcess) -> None:
    """Give all but topic u three replicas; returns when all are in sync."""
    admin = AdminClient({"bootstrap.servers": here.bootstrap})
    until(lambda: len(admin.list_topics(timeout=10).brokers) == 3, "three brokers")
    moves = [f"{name}=0,1,2" for name in ("t", *INTERNAL)]
    assert set(headrace("cluster", "reassign", *moves, "-b", here.bootstrap).splitlines()) == {
        f"{name}:{index} moves to {brokers}"
        for name in ("t", *INTERNAL)
        for index, brokers in enumerate(("0,1,2", "1,2,0"))
    }

    def in_sync() -> bool:
        topics = admin.list_topics(timeout=10).topics
        partitions = [p for name in ("t", *INTERNAL) for p in topics[name].partitions.values()]
        return all(set(p.isrs) == set(p.replicas) == {0, 1, 2} for p in partitions)

    until(in_sync, "three replicas in sync")
    said = headrace("cluster", "reassign", "--list", "-b", here.bootstrap)
    assert "no partition is being moved" in said
