"""Brokers as processes whose metadata store is a real ZooKeeper."""

import json
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from kazoo.client import KazooClient

from tests.support.processes.process import BrokerProcess, headrace
from tests.support.zookeeper import ZooKeeper

TREE = Path(__file__).parents[1] / "golden" / "zk-tree-kafka-3.9.0.txt"
SESSION_MS = 20_000
"""Longer than any test takes that does not wait for it."""
WAIT_SECONDS_MAX = 30.0
OURS_ALONE = {
    "/config/groups",
    "/config/client-metrics",
    "/headrace-directories",
    "/headrace-directories/0",
}
"""Paths that Kafka 3.9 does not have: roots of Kafka 4, and stamps of log directories (ADR 64)."""


@pytest.fixture
def connect(zookeeper: ZooKeeper) -> str:
    """A part of ZooKeeper that nobody has used."""
    return f"{zookeeper.hosts}/kafka-{uuid4().hex}"


def broker(place: Path, connect: str, **settings: Any) -> BrokerProcess:
    given: dict[str, Any] = {
        "zookeeper_connect": connect,
        "zookeeper_session_timeout_ms": SESSION_MS,
    }
    return BrokerProcess(place, **{**given, **settings})


def ask(here: BrokerProcess, *words: str, typed: str = "") -> str:
    """What our command says."""
    return headrace(here.bootstrap, *words, typed=typed)


def refusal(here: BrokerProcess) -> str:
    """The one line with which a broker ends instead of starting."""
    with pytest.raises(AssertionError):
        here.start()
    lines = [line for line in here.output.splitlines() if line]
    assert len(lines) == 1, lines
    return lines[0]


@contextmanager
def looking_into(connect: str) -> Iterator[KazooClient]:
    client = KazooClient(connect)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def tree(client: KazooClient, path: str = "/") -> dict[str, bytes]:
    found = {path: client.get(path)[0]}
    for name in client.get_children(path):
        found |= tree(client, f"{path.rstrip('/')}/{name}")
    return found


def kafkas_tree() -> dict[str, str]:
    """What a real Kafka's ZooKeeper held, path → content."""
    lines = [line.split(" ", 2) for line in TREE.read_text().splitlines()]
    return {path: content for path, _, content in lines}


def shape(content: str) -> object:
    """The names and types of a node's fields, in their order."""
    try:
        read = json.loads(content)
    except ValueError:
        return content
    if not isinstance(read, dict):
        return type(read).__name__
    return [(name, type(value).__name__) for name, value in read.items()]


def test_a_broker_alone_keeps_its_topics_in_zookeeper_as_kafka_does(
    tmp_path: Path, connect: str
) -> None:
    with broker(tmp_path, connect, broker_id=0) as here:
        ask(here, "topic", "create", "golden", "-p", "1", "-c", "segment.bytes=20000",
            "-c", "index.interval.bytes=512")  # fmt: skip
        ask(here, "produce", "golden", typed="first\n")
        with looking_into(connect) as client:
            found = tree(client)
        here.stop()
        with looking_into(connect) as client:
            assert client.get_children("/brokers/ids") == []
            assert not client.exists("/controller")
        here.start()
        ask(here, "produce", "golden", typed="second\n")
        read = ask(here, "consume", "golden", "-o", "start", "-n", "2", "-f", "%v\\n")
        assert read.split() == ["first", "second"]
    kafkas = kafkas_tree()
    persistent = {path for path in kafkas if "/__" not in path and "config_change" not in path}
    persistent -= {"/config/users/u"}
    ephemeral = {"/brokers/ids/0", "/controller"}
    assert found.keys() == persistent | ephemeral | OURS_ALONE
    for path in persistent - {"/latest_producer_id_block"}:
        assert shape(found[path].decode()) == shape(kafkas[path]), path
    assert found["/config/topics/golden"].decode() == kafkas["/config/topics/golden"]
    assert not (tmp_path / "log" / "headrace-metadata.db").exists()


def test_a_broker_that_was_killed_starts_at_once_in_the_place_of_its_former_self(
    tmp_path: Path, connect: str
) -> None:
    with broker(tmp_path, connect, broker_id=3) as here:
        ask(here, "topic", "create", "t", "-p", "1")
        with looking_into(connect) as client:
            former = client.exists("/brokers/ids/3").czxid
            here.kill()
            assert here.start() < SESSION_MS / 1000 / 2
            assert client.exists("/brokers/ids/3").czxid > former
        ask(here, "produce", "t", typed="x\n")
        ask(here, "topic", "create", "made-by-the-new-controller", "-p", "1")


def test_a_second_broker_with_one_id_is_told_where_the_first_is(
    tmp_path: Path, connect: str
) -> None:
    with broker(tmp_path / "1", connect, broker_id=5) as first:
        with looking_into(connect) as client:
            session = client.exists("/brokers/ids/5").ephemeralOwner
        line = refusal(broker(tmp_path / "2", connect, broker_id=5))
        assert "broker.id=5" in line
        assert f"127.0.0.1:{first.port}" in line
        assert f"session {session:#x}" in line


def test_directories_of_another_cluster_are_refused(
    tmp_path: Path, zookeeper: ZooKeeper, connect: str
) -> None:
    with broker(tmp_path, connect, broker_id=0):
        pass
    (tmp_path / "output.log").unlink()
    other = f"{zookeeper.hosts}/other-{uuid4().hex}"
    with broker(tmp_path / "other", other, broker_id=1):
        line = refusal(broker(tmp_path, other, broker_id=0))
    assert "belongs to cluster" in line


def test_records_of_a_cluster_are_not_started_on_an_empty_chroot(
    tmp_path: Path, zookeeper: ZooKeeper, connect: str
) -> None:
    with broker(tmp_path, connect, broker_id=0) as here:
        ask(here, "produce", "t", typed="acknowledged\n")
    (tmp_path / "output.log").unlink()
    typo = f"{zookeeper.hosts}/typo-{uuid4().hex}"
    line = refusal(broker(tmp_path, typo, broker_id=0))
    assert f"zookeeper.connect={typo} has no cluster" in line
    with looking_into(typo) as client:
        assert client.get_children("/") == []
    cluster = re.search(r"belongs to cluster (\S+)", line)
    assert cluster is not None
    with broker(tmp_path, typo, broker_id=0, accept_cluster_id=cluster[1]) as here:
        assert ask(here, "topic", "list").split() == []
    with broker(tmp_path, connect, broker_id=0) as here:
        read = ask(here, "consume", "t", "-o", "start", "-n", "1", "-f", "%v\\n")
    assert read.split() == ["acknowledged"]


def test_ids_are_given_by_zookeeper_and_kept(tmp_path: Path, connect: str) -> None:
    first, second = broker(tmp_path / "1", connect), broker(tmp_path / "2", connect)
    with first, second, looking_into(connect) as client:
        assert sorted(client.get_children("/brokers/ids")) == ["1001", "1002"]
        second.stop()
        second.start()
        assert sorted(client.get_children("/brokers/ids")) == ["1001", "1002"]
    assert "broker.id=1002" in (tmp_path / "2" / "log" / "meta.properties").read_text()


def test_all_brokers_of_one_zookeeper_are_of_one_cluster(tmp_path: Path, connect: str) -> None:
    with broker(tmp_path / "1", connect), broker(tmp_path / "2", connect):
        ids = {
            re.search("^cluster.id=(.*)$", path.read_text(), re.MULTILINE)
            for path in tmp_path.glob("*/log/meta.properties")
        }
        assert len({found and found[1] for found in ids}) == 1


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline, "it never is"
        time.sleep(0.05)


def test_a_broker_that_stood_still_for_too_long_takes_part_again_in_a_new_session(
    tmp_path: Path, connect: str
) -> None:
    with broker(tmp_path, connect, broker_id=0, zookeeper_session_timeout_ms=1500) as here:
        with looking_into(connect) as client:
            former = client.exists("/brokers/ids/0").czxid
            assert here.process is not None
            here.process.send_signal(signal.SIGSTOP)
            try:
                until(lambda: client.exists("/brokers/ids/0") is None)
            finally:
                here.process.send_signal(signal.SIGCONT)
            until(lambda: client.exists("/brokers/ids/0") and client.exists("/controller"))
            assert client.exists("/brokers/ids/0").czxid > former
            until(lambda: client.get("/controller_epoch")[0] == b"2")
        ask(here, "topic", "create", "t", "-p", "1")
        ask(here, "produce", "t", typed="x\n")


def test_records_are_taken_and_read_while_zookeeper_stands_still(tmp_path: Path) -> None:
    with (
        ZooKeeper(tmp_path / "zookeeper") as server,
        broker(tmp_path, server.hosts, broker_id=0, zookeeper_session_timeout_ms=2000) as here,
    ):
        ask(here, "topic", "create", "t", "-p", "1")
        ask(here, "produce", "t", typed="first\n")
        server.pause()
        try:
            until(lambda: "ZooKeeper does not answer" in here.output)
            ask(here, "produce", "t", typed="second\n")
            read = ask(here, "consume", "t", "-o", "start", "-n", "2", "-f", "%v\\n")
        finally:
            server.resume()
        assert read.split() == ["first", "second"]
        until(lambda: re.search("continues\n|registers again", here.output))
        ask(here, "topic", "create", "again", "-p", "1")
