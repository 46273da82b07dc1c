"""A single broker's queues, moved to ZooKeeper, get members on two more brokers."""

import subprocess
from pathlib import Path
from typing import Any

import pika

from headrace.queues.queue_names import DECLARATIONS_TOPIC
from tests.support.cluster.amqp_cluster import AmqpCluster
from tests.support.cluster.broker_cluster import until
from tests.support.processes.process import HEADRACE, BrokerProcess, free_port
from tests.support.zookeeper import ZooKeeper

MESSAGES, SETTLED = 20, 7


def headrace(*words: str) -> None:
    """Run a command that must succeed."""
    done = subprocess.run([str(HEADRACE), *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"


def fill(port: int) -> None:
    """Declare a queue behind an exchange, publish, and acknowledge some messages."""
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("kept", durable=True)
        channel.exchange_declare("shop", "topic", durable=True)
        channel.queue_bind("kept", "shop", "new.#")
        for number in range(MESSAGES):
            properties = pika.BasicProperties(delivery_mode=2)
            channel.basic_publish("shop", "new.order", b"%d" % number, properties, mandatory=True)
        for _ in range(SETTLED):
            method, _, _ = channel.basic_get("kept")
            assert method is not None
            channel.basic_ack(method.delivery_tag)
        connection.sleep(1)  # settled positions are on disk after 100 ms


def test_queues_of_a_single_broker_are_grown_to_three_brokers_on_zookeeper(
    tmp_path: Path, zookeeper: ZooKeeper
) -> None:
    port = free_port()
    address = f"PLAINTEXT://127.0.0.1:{port},AMQP://127.0.0.1:{free_port()}"
    given: dict[str, Any] = {"amqp_guest": "true", "broker_id": 0, "listeners": address}
    cluster = AmqpCluster(tmp_path, zookeeper.hosts)
    first = cluster.brokers[0]
    with BrokerProcess(first.directory, port, **given):
        fill(int(address.rpartition(":")[2]))
    place = str(first.directory / "log")
    headrace("cluster", "migrate", "--data", place, "--zookeeper", cluster.connect)
    with cluster:
        until(lambda: grown(cluster), "the log of declarations is on all brokers")
        for number in (1, 2):
            headrace("amqp", "queue", "grow", str(number), "--all", "-b", cluster.bootstrap)
        first.kill()
        cluster.until_queue_led("kept", by_others_than=[0])
        with cluster.channel(2, confirms=True) as channel:
            channel.queue_declare("declared later", durable=True)
            channel.basic_publish("shop", "new.last", b"last", mandatory=True)
            found: list[bytes] = []
            for method, _, body in channel.consume("kept", inactivity_timeout=10):
                assert method is not None, found
                found.append(body)
                channel.basic_ack(method.delivery_tag)
                if body == b"last":
                    break
        assert found == [*(b"%d" % number for number in range(SETTLED, MESSAGES)), b"last"]
        first.start()


def grown(cluster: AmqpCluster) -> bool:
    """Whether three replicas of each partition of the log are in sync."""
    found = cluster.in_sync(DECLARATIONS_TOPIC).values()
    return all(assigned == isr == {0, 1, 2} for assigned, isr in found)
