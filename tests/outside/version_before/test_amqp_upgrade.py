"""Kafka's cluster of the version before gets AMQP listeners, one upgraded broker at a time."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pika
import pytest

from headrace.queues.queue_names import DECLARATIONS_TOPIC, queue_topic
from tests.support.cluster.broker_cluster import BrokerCluster, until
from tests.support.cluster.cluster_load import goes_on, judge, writing
from tests.support.processes.process import HEADRACE, free_port
from tests.support.version_before.commands import run
from tests.support.zookeeper import ZooKeeper

QUEUE = "orders"
SETTLE_SECONDS = 3.0


class Publisher:
    """A publisher with confirms that reconnects to the next broker after each failure."""

    def __init__(self) -> None:
        self.ports: list[int] = []
        self.confirmed: list[bytes] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    @contextmanager
    def running(self) -> Iterator["Publisher"]:
        self._thread.start()
        try:
            yield self
        finally:
            self.end()

    def end(self) -> None:
        """Publish nothing more."""
        self._ended.set()
        self._thread.join(90)

    def goes_on(self) -> None:
        """Return once more publishes are confirmed."""
        before = len(self.confirmed)
        until(lambda: len(self.confirmed) > before + 20, "publishes are confirmed", 90)

    def _run(self) -> None:
        turn = number = 0
        while not self._ended.is_set():
            if not self.ports:
                time.sleep(0.1)
                continue
            turn += 1
            try:
                number = self._publish(self.ports[turn % len(self.ports)], number)
            except (pika.exceptions.AMQPError, OSError):
                time.sleep(0.2)

    def _publish(self, port: int, number: int) -> int:
        address = pika.ConnectionParameters(
            "127.0.0.1", port, heartbeat=5, socket_timeout=5, blocked_connection_timeout=10
        )
        with pika.BlockingConnection(address) as connection:
            channel = connection.channel()
            channel.queue_declare(QUEUE, durable=True, arguments={"x-queue-type": "quorum"})
            channel.confirm_delivery()
            for _ in range(20):
                body = b"%d" % number
                channel.basic_publish("", QUEUE, body, pika.BasicProperties(delivery_mode=2))
                self.confirmed.append(body)
                number += 1
        return number


def consumed(port: int) -> set[bytes]:
    """Consume and acknowledge a queue's messages until it is quiet."""
    found = set()
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)) as connection:
        channel = connection.channel()
        for method, _, body in channel.consume(QUEUE, inactivity_timeout=SETTLE_SECONDS):
            if method is None:
                break
            found.add(body)
            channel.basic_ack(method.delivery_tag)
        channel.cancel()
    return found


def replicas(cluster: BrokerCluster, topic: str) -> list[set[int]]:
    """The replicas of each partition, if all of them are in sync."""
    found = cluster.in_sync(topic).values()
    return [assigned for assigned, isr in found if assigned == isr]


@pytest.mark.timeout(600)
def test_confirmed_publishes_survive_an_upgrade_by_kills_and_one_more_kill(
    tmp_path: Path, zookeeper: ZooKeeper, headrace_before: Path
) -> None:
    old = [headrace_before] * 3
    publisher = Publisher()
    with (
        BrokerCluster(tmp_path, zookeeper.hosts, commands=old, min_insync_replicas=2) as cluster,
        writing(cluster) as load,
        publisher.running(),
    ):
        for number, broker in enumerate(cluster.brokers):
            broker.kill()
            cluster.until_led(load.topic, by_others_than=[number])
            goes_on(cluster, load)
            port = free_port()
            broker.settings["listeners"] = f"{broker.settings['listeners']},AMQP://127.0.0.1:{port}"
            broker.settings["amqp.guest"] = "true"
            cluster.run_next(number, HEADRACE)
            broker.start()
            cluster.until_in_sync(load.topic)
            publisher.ports.append(port)
        publisher.goes_on()
        until(
            lambda: replicas(cluster, DECLARATIONS_TOPIC) == [{0, 1, 2}] * 8,
            "the log of declarations is on all brokers",
        )
        for number in range(3):
            run("amqp", "queue", "grow", str(number), "--all", "-b", cluster.bootstrap)
        until(
            lambda: replicas(cluster, queue_topic("/", QUEUE)) == [{0, 1, 2}],
            "the queue is on all brokers",
        )
        cluster.brokers[0].kill()
        publisher.ports.pop(0)
        publisher.goes_on()
        goes_on(cluster, load)
        cluster.brokers[0].start()
        judge(cluster, load)
        publisher.end()
        assert set(publisher.confirmed) - consumed(publisher.ports[-1]) == set()
