"""`headrace dev`: what it is asked for, and three brokers in one process with a real client."""

import socket
import subprocess
import time
from functools import partial
from pathlib import Path
from typing import Any

import pika
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.cli.broker import dev
from headrace.cli.main import run
from headrace.config.broker import BrokerConfig
from headrace.config.listeners import LISTENER_PROTOCOLS
from headrace.terminal.failure import CommandError, UsageError
from headrace.wire.amqp.settings import AmqpKeys
from tests.outside.amqp.address import Address, answers
from tests.support.cluster.broker_cluster import until
from tests.support.processes.dev_process import amqp_ports, trial
from tests.support.processes.process import HEADRACE, free_port


def configured(tmp_path: Path, count: int, port: int = 9092, **given: str) -> list[BrokerConfig]:
    named = {name.replace("_", "."): value for name, value in given.items()}
    return dev.configs_of(tmp_path, count, port, named)


def test_each_broker_has_an_id_a_port_and_a_directory_of_its_own(tmp_path: Path) -> None:
    configs = configured(tmp_path, 3, 9192)
    assert [config.broker_id for config in configs] == [1, 2, 3]
    listeners = [(config.listeners[0].host, config.listeners[0].port) for config in configs]
    assert listeners == [("127.0.0.1", port) for port in (9192, 9193, 9194)]
    assert [config.log_dirs for config in configs] == [
        (str(tmp_path / name),) for name in ("broker1", "broker2", "broker3")
    ]
    assert {config.listeners[0].port for config in configured(tmp_path, 2, 0)} == {0}


def listeners(config: BrokerConfig) -> list[str]:
    return [str(listener) for listener in config.listeners]


def guest(config: BrokerConfig) -> bool:
    """Whether the user guest may log in."""
    return AmqpKeys.of(config.values).amqp_guest


def default_port(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    """Have another port be the one of AMQP, and a free one that of the management API."""
    for name, default in (("AMQP", port), ("MANAGEMENT", 0)):
        spoken = LISTENER_PROTOCOLS[name]._replace(default_port=default)
        monkeypatch.setitem(LISTENER_PROTOCOLS, name, spoken)


def free_ports(count: int) -> int:
    """The first of so many free ports in a row."""
    while True:
        first = free_port()
        try:
            for number in range(first, first + count):
                socket.create_server(("127.0.0.1", number)).close()
        except OSError:
            continue
        return first


def test_each_broker_serves_rabbitmqs_clients_at_default_ports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_ports(2)
    default_port(monkeypatch, port)
    configs = configured(tmp_path, 2, 9092)
    assert [listeners(config) for config in configs] == [
        ["PLAINTEXT://127.0.0.1:9092", f"AMQP://127.0.0.1:{port}", "MANAGEMENT://127.0.0.1:0"],
        ["PLAINTEXT://127.0.0.1:9093", f"AMQP://127.0.0.1:{port + 1}", "MANAGEMENT://127.0.0.1:0"],
    ]
    assert all(map(guest, configs))
    configs = configured(tmp_path, 2, 0, amqp_guest="false")
    assert [listeners(config) for config in configs] == [
        ["PLAINTEXT://127.0.0.1:0", "AMQP://127.0.0.1:0", "MANAGEMENT://127.0.0.1:0"]
    ] * 2
    assert not any(map(guest, configs))


def test_free_ports_are_used_with_a_warning_if_an_amqp_port_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_ports(2)
    with socket.create_server(("127.0.0.1", port + 1)):
        default_port(monkeypatch, port)
        configs = configured(tmp_path, 2, 9092)
    assert [listeners(config)[1] for config in configs] == ["AMQP://127.0.0.1:0"] * 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f":{port + 1}: address already in use: other ports for RabbitMQ clients" in said


def test_who_names_a_port_of_amqp_that_is_taken_gets_no_cluster_without_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = subprocess.run(
            [str(HEADRACE), "dev", "--brokers", "1", "--port", "0", "--amqp-port", str(port)],
            capture_output=True, text=True, timeout=30,
        )  # fmt: skip
    assert ended.returncode == 2
    assert f"listeners=AMQP://127.0.0.1:{port}: address already in use" in ended.stderr


def _has(channel: Any, count: int) -> bool:
    """Declare the queue; 0 is its count while the leader, which has just started, is silent."""
    return bool(channel.queue_declare("kept", durable=True).method.message_count == count)


def test_a_trial_serves_rabbitmqs_clients_at_each_broker(tmp_path: Path) -> None:
    for ready in (0, 2):
        with trial(tmp_path, "--brokers", "2", "--data", str(tmp_path / "data")):
            ports = amqp_ports(tmp_path)
            assert len(ports) == 2
            for number, port in enumerate(ports):
                assert answers(Address(port))
                address = pika.ConnectionParameters("127.0.0.1", port)
                with pika.BlockingConnection(address) as opened:
                    channel = opened.channel()
                    channel.confirm_delivery()
                    until(
                        partial(_has, channel, ready + number), "all brokers have one set of queues"
                    )
                    channel.basic_publish("", "kept", b"m", pika.BasicProperties(delivery_mode=2))


def test_amqp_ports_follow_the_first_brokers_one(tmp_path: Path) -> None:
    asked = {"amqp_port": 5800, "management_port": 5900}
    configs = dev.configs_of(tmp_path, 2, 9192, {}, asked)
    assert [listeners(config) for config in configs] == [
        ["PLAINTEXT://127.0.0.1:9192", "AMQP://127.0.0.1:5800", "MANAGEMENT://127.0.0.1:5900"],
        ["PLAINTEXT://127.0.0.1:9193", "AMQP://127.0.0.1:5801", "MANAGEMENT://127.0.0.1:5901"],
    ]
    with pytest.raises(UsageError, match="--amqp-port 65535: must be 1 to 65534, or 0"):
        dev.configs_of(tmp_path, 2, 9192, {}, {"amqp_port": 65_535})


@pytest.mark.parametrize(("count", "copies", "least"), [(1, 1, 1), (2, 2, 2), (3, 3, 2), (5, 3, 2)])
def test_topics_have_as_many_copies_as_there_are_brokers_and_three_at_most(
    tmp_path: Path, count: int, copies: int, least: int
) -> None:
    for config in configured(tmp_path, count):
        assert config.default_replication_factor == copies
        assert config.offsets_topic_replication_factor == copies
        assert config.transaction_state_log_replication_factor == copies
        assert config.share_coordinator_state_topic_replication_factor == copies
        assert config.transaction_state_log_min_isr == least
        assert config.share_coordinator_state_topic_min_isr == least


def test_settings_are_all_brokers_and_what_each_needs_for_itself_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configs = configured(tmp_path, 3, num_partitions="7", default_replication_factor="2")
    assert [config.num_partitions for config in configs] == [7, 7, 7]
    assert [config.default_replication_factor for config in configs] == [2, 2, 2]
    assert capsys.readouterr().err == "", "there are several brokers to replicate to"
    own = ("broker_id", "listeners", "log_dirs", "management_listener", "zookeeper_connect")
    for name in own:
        with pytest.raises(UsageError, match="differs for each broker"):
            configured(tmp_path, 3, 9092, **{name: "1"})


@pytest.mark.parametrize(("asked", "there", "brokers"), [(None, 0, 3), (None, 2, 2), (4, 3, 4)])
def test_as_many_brokers_come_as_are_asked_for_or_have_kept_data(
    asked: int | None, there: int, brokers: int
) -> None:
    assert dev.how_many(asked, there) == brokers


@pytest.mark.parametrize(("words", "said"), [
    (["--brokers", "0"], "--brokers 0: must be 1 to 9"),
    (["--brokers", "10"], "--brokers 10: must be 1 to 9"),
    (["--brokers", "three"], "--brokers"),
    (["--port", "65534"], "--port 65534: must be 1 to 65533 for 3 brokers"),
    (["--port", "-1"], "--port"),
    (["--set", "log.dirs=x"], "--set log.dirs: differs for each broker"),
])  # fmt: skip
def test_what_cannot_be_is_refused_in_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["dev", *words]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("headrace: ")
    assert told.err.count("\n") == 1
    assert said in told.err


def test_brokers_that_have_kept_data_cannot_be_left_out(tmp_path: Path) -> None:
    for name in ("broker1", "broker3", "broker7x", "broker-9"):
        (tmp_path / name).mkdir()
    (tmp_path / "broker8").touch()
    assert dev.kept(tmp_path) == 3
    with pytest.raises(UsageError, match="the data of 3 brokers"):
        dev.how_many(2, dev.kept(tmp_path))
    assert dev.kept(tmp_path / "not there") == 0


@pytest.mark.parametrize("name", ["headrace-metadata.db", "meta.properties"])
def test_a_single_brokers_directory_is_refused(tmp_path: Path, name: str) -> None:
    dev.check_place(tmp_path)
    (tmp_path / name).touch()
    with pytest.raises(CommandError, match=f"single broker \\({name} exists\\)"):
        dev.check_place(tmp_path)


def test_three_brokers_take_records_in_three_copies_and_have_them_after_a_restart(
    tmp_path: Path,
) -> None:
    with trial(tmp_path, "--brokers", "3", "--data", str(tmp_path / "data")) as bootstrap:
        assert bootstrap.count(":") == 3
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic("orders", 3)])["orders"].result(20)
        partitions = admin.list_topics("orders", timeout=10).topics["orders"].partitions.values()
        assert {frozenset(partition.replicas) for partition in partitions} == {frozenset({1, 2, 3})}
        assert {partition.leader for partition in partitions} == {1, 2, 3}
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "trial"})
        producer.init_transactions(30)
        producer.begin_transaction()
        for number in range(300):
            producer.produce("orders", str(number), partition=number % 3)
        producer.commit_transaction(30)
    assert {path.name for path in (tmp_path / "data").iterdir()} == {
        ".lock", "broker1", "broker2", "broker3", "headrace-dev.db",
    }  # fmt: skip
    with trial(tmp_path, "--data", str(tmp_path / "data")) as bootstrap:
        asked = {"bootstrap.servers": bootstrap, "group.id": "g", "enable.auto.commit": False}
        consumer = Consumer(asked | {"isolation.level": "read_committed"})
        consumer.assign([TopicPartition("orders", index, 0) for index in range(3)])
        found: list[int] = []
        deadline = time.monotonic() + 20
        while len(found) < 300 and time.monotonic() < deadline:
            found += [int(message.value()) for message in consumer.consume(300, 0.5)]
        consumer.close()
        again = subprocess.run(
            [str(HEADRACE), "dev", "--port", "0", "--data", str(tmp_path / "data")],
            capture_output=True, text=True, timeout=30,
        )  # fmt: skip
        assert again.returncode == 1
        assert "in use by process " in again.stderr
    assert sorted(found) == list(range(300))


def test_without_data_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    with trial(tmp_path, "--brokers", "1") as bootstrap:
        assert bootstrap.count(":") == 1
        assert list((tmp_path / "temporary").iterdir()) != []
    assert list((tmp_path / "temporary").iterdir()) == []
