"""What a dashboard and alert rules name is there: in scrapes of brokers with traffic.

One broker alone, and two of one cluster. `promtool`, where it is installed, judges names and rules.
"""

import asyncio
import json
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.parser import text_string_to_metric_families

from headrace.cli.broker.dev import configs_of
from headrace.config.broker import load
from headrace.server.assembly import Server
from headrace.server.cluster.local_cluster import LocalCluster
from headrace.testing.broker import BrokerThread
from headrace.wire.rocketmq.codes import RequestCode
from tests.support.rocketmq.client import RemotingClient

ROOT = Path(__file__).parents[3]
SAMPLES = ROOT / "src" / "headrace" / "config" / "samples"
DASHBOARD = SAMPLES / "headrace-dashboard.json"
ALERTS = SAMPLES / "headrace-alerts.yml"
ALERT_TESTS = Path(__file__).with_name("headrace-alerts-test.yml")
NAMED = re.compile(r"\b(?:headrace|process)_[a-z_]+")
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is not installed (apt install prometheus)"
)


def work(bootstrap: str, replicas: int) -> None:
    """Have records produced and consumed, a group commit, and something refused."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic("orders", 2, replicas)]).values():
        made.result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for number in range(100):
        producer.produce("orders", b"x" * 100, partition=number % 2)
    assert producer.flush(30) == 0
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "readers", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition("orders", index, 0) for index in range(2)])
    seen = 0
    while seen < 100:
        seen += len(consumer.consume(100 - seen, 30))
    consumer.commit(offsets=[TopicPartition("orders", 0, 20)], asynchronous=False)
    consumer.close()
    assert admin.create_topics([NewTopic("orders", 1, 1)])["orders"].exception(30) is not None
    small = NewTopic("small", 1, replicas, config={"max.message.bytes": "200"})
    admin.create_topics([small])["small"].result(30)
    refusals: list[object] = []
    producer.produce(
        "small", b"x" * 1000, partition=0, on_delivery=lambda error, _: refusals.append(error)
    )
    assert producer.flush(30) == 0
    assert refusals[0] is not None


def work_by_amqp(port: int) -> pika.BlockingConnection:
    """Publish ten messages to a queue; acknowledge three, return one, reject one, hold two."""
    parameters = pika.ConnectionParameters("127.0.0.1", port)
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.queue_declare("work", durable=True)
    channel.queue_declare("", exclusive=True)
    channel.confirm_delivery()
    for _ in range(10):
        channel.basic_publish("", "work", b"x" * 10, pika.BasicProperties(delivery_mode=2))
    for number in range(7):
        method, _, _ = channel.basic_get("work")
        assert method is not None
        if number < 3:
            channel.basic_ack(method.delivery_tag)
        elif number == 3:
            channel.basic_nack(method.delivery_tag)
        elif number == 4:
            channel.basic_reject(method.delivery_tag, requeue=False)
    return connection


def work_by_remoting(port: int) -> None:
    """Send messages, pull them, delay one, and make three mistakes."""
    with RemotingClient(port) as client:
        client.heartbeat("client", "group", {"sent": "*"})
        for _ in range(2):
            client.send("sent")
        client.pull("sent", consumerGroup="group")
        client.send("sent", i="DELAY\x0118\x02")
        client.pull("missing", consumerGroup="group")
        client.call(99)
        client.one_way(RequestCode.SEND_MESSAGE_V2, {})
        client.send("sent")


def scrape(host: str, port: int) -> str:
    with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=30) as answer:
        text: str = answer.read().decode()
        return text


def address_of(server: Server) -> tuple[str, int]:
    assert server.http is not None
    return server.http.address


def scrape_of_one() -> str:
    settings = {
        "metrics.listener": "127.0.0.1:0",
        "listeners": "PLAINTEXT://127.0.0.1:0,AMQP://127.0.0.1:0,ROCKETMQ://127.0.0.1:0",
        "rocketmq.disk.max.used.percent": "100",
        "amqp.guest": "true",
    }
    with BrokerThread(settings) as broker:
        work(broker.bootstrap, 1)
        connection = work_by_amqp(broker.call(lambda server: server.listeners[1].port))
        work_by_remoting(broker.call(lambda server: server.listeners[2].port))
        scraped = scrape(*broker.call(address_of))
        connection.close()
        return scraped


def scrapes_of_a_cluster(place: Path) -> list[str]:
    async def story() -> list[str]:
        configs = [
            config.updated({"metrics.listener": "127.0.0.1:0"})
            for config in configs_of(place, 2, 0, {"min.insync.replicas": "1"})
        ]
        broken: list[Exception] = []
        cluster = LocalCluster(configs, str(place / "store.db"), broken.append)
        await cluster.start()
        try:
            await asyncio.to_thread(work, cluster.bootstrap(), 2)
            return [
                await asyncio.to_thread(scrape, *address_of(server)) for server in cluster.servers
            ]
        finally:
            await cluster.stop()
            assert not broken

    return asyncio.run(story())


@pytest.fixture(scope="module")
def alone() -> str:
    return scrape_of_one()


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return scrapes_of_a_cluster(tmp_path_factory.mktemp("cluster"))


def samples(*texts: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Labels and values of all samples by name."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for text in texts:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def expressions() -> Iterator[str]:
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))


def test_every_metric_of_the_dashboard_and_the_alerts_is_in_a_scrape(
    alone: str, together: list[str]
) -> None:
    there = samples(alone, *together).keys()
    shown = {name for expression in expressions() for name in NAMED.findall(expression)}
    alarming = set(NAMED.findall(ALERTS.read_text()))
    assert len(shown) > 40
    assert len(alarming) > 12
    assert not shown - there
    assert not alarming - there


def test_labels_that_the_dashboard_sums_by_are_there(alone: str, together: list[str]) -> None:
    there = samples(alone, *together)
    for expression in expressions():
        for by, inner in re.findall(r"by \(([a-z_, ]+)\) \((?:rate\()?([a-z_]+)", expression):
            for label in {name.strip() for name in by.split(",")} - {"instance"}:
                assert all(label in labels for labels, _ in there[inner]), (label, inner)


def test_the_numbers_are_those_of_the_traffic(alone: str, together: list[str]) -> None:
    found = samples(alone)
    orders = {"topic": "orders"}
    assert (orders, 100) in found["headrace_topic_records_in_total"]
    ((_, size),) = [entry for entry in found["headrace_topic_bytes_in_total"] if entry[0] == orders]
    assert 100 * 100 < size < 100 * 250
    assert (orders, size) in found["headrace_topic_bytes_out_total"]
    assert (orders, size) in found["headrace_log_bytes"]
    lag = {"group": "readers", "topic": "orders"}
    assert found["headrace_group_lag_records"] == [(lag, 30)], "of the one partition committed"
    listeners = [labels["listener"] for labels, _ in found["headrace_connections"]]
    assert sorted(listeners) == ["AMQP", "PLAINTEXT", "ROCKETMQ"]
    timed = {labels["api"]: value for labels, value in found["headrace_request_seconds_count"]}
    assert timed["create_topics"] == 3, "of what is asked seldom each is timed"
    wrong = {"api": "produce", "error": "message_too_large"}
    assert (wrong, 1) in found["headrace_errors_total"]
    assert found["process_open_fds"][0][1] > 3
    both = samples(*together)
    assert sum(n for at, n in both["headrace_topic_records_in_total"] if at == orders) == 100
    assert sum(n for at, n in both["headrace_topic_bytes_in_total"] if at == orders) == sum(
        n for at, n in both["headrace_topic_replication_bytes_out_total"] if at == orders
    ), "each byte went to the one follower"
    assert sum(value for _, value in both["headrace_controller_active"]) == 1


def test_numbers_of_queues_are_those_of_their_messages(alone: str) -> None:
    found = samples(alone)
    work = {"vhost": "/", "queue": "work"}
    numbers = {
        "messages_ready": 4, "messages_unacked": 2, "ready_bytes": 40, "consumers": 0,
        "messages_published_total": 10, "messages_delivered_total": 7,
        "messages_redelivered_total": 1, "messages_acknowledged_total": 3,
        "messages_discarded_total": 1,
    }  # fmt: skip
    for name, value in numbers.items():
        assert found[f"headrace_queue_{name}"] == [(work, value)], name
    assert found["headrace_queues"] == [({}, 2)]
    assert found["headrace_queues_unlisted"] == [({}, 1)], "the exclusive one"
    assert found["headrace_queues_messages_ready"] == [({}, 4)]
    assert found["headrace_queues_messages_unacked"] == [({}, 2)]
    assert found["headrace_amqp_publishers_blocked"] == [({}, 0)]
    assert found["headrace_amqp_channels"] == [({}, 1)]
    topic = {"topic": "__amqp.queue.work"}
    assert (topic, 10) in found["headrace_topic_records_in_total"]
    (size,) = [n for at, n in found["headrace_topic_bytes_in_total"] if at == topic]
    assert 100 < size < 10_000


def test_numbers_of_remoting_requests_are_those_of_their_codes(alone: str) -> None:
    found = samples(alone)
    requests = {at["request"]: n for at, n in found["headrace_rocketmq_requests_total"]}
    assert requests == {"heart_beat": 1, "send_message_v2": 5, "pull_message": 2, "other": 1}
    errors = {
        (at["request"], at["response"]): n for at, n in found["headrace_rocketmq_errors_total"]
    }
    assert errors == {
        ("pull_message", "topic_not_exist"): 1,
        ("other", "request_code_not_supported"): 1,
        ("send_message_v2", "system_error"): 1,
    }
    late = {at["status"]: n for at, n in found["headrace_rocketmq_stored_late_total"]}
    assert late == dict.fromkeys(
        ("flush_disk_timeout", "flush_slave_timeout", "slave_not_available"), 0
    )
    for name, value in (("delayed_messages", 1), ("messages_pulled_total", 2),
                        ("unexpired_deleted_bytes_total", 0)):  # fmt: skip
        assert found[f"headrace_rocketmq_{name}"] == [({}, value)], name


def test_the_dashboard_is_the_one_that_its_rows_make() -> None:
    command = [sys.executable, str(ROOT / "tools" / "gen_dashboard.py"), "--check"]
    assert subprocess.run(command, check=False).returncode == 0


@needs_promtool
def test_promtool_finds_nothing_wrong_with_names_and_types(alone: str, together: list[str]) -> None:
    for text in (alone, *together):
        judged = promtool("check", "metrics", given=text)
        assert (judged.returncode, judged.stdout, judged.stderr) == (0, "", "")


@needs_promtool
def test_promtool_runs_each_alert_in_what_it_is_about() -> None:
    checked = promtool("check", "rules", "--lint-fatal", str(ALERTS))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    tested = promtool("test", "rules", str(ALERT_TESTS))
    assert tested.returncode == 0, tested.stdout + tested.stderr
    alerts = re.findall(r"- alert: (\w+)", ALERTS.read_text())
    unfired = [name for name in alerts if f"name: {name} fires" not in ALERT_TESTS.read_text()]
    assert len(alerts) > 10
    assert unfired == []


def promtool(*words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [str(PROMTOOL), *words]
    return subprocess.run(
        command, input=given, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_limits_of_series_are_settings_with_defaults() -> None:
    config, _ = load()
    assert (config.metrics_topics_max, config.metrics_group_lags_max) == (500, 1000)
    assert config.metrics_queues_max == 500
