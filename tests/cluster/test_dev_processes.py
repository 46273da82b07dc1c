"""`headrace dev --processes`: a ZooKeeper from pyspark's jars, brokers that can be killed."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pika
import pytest

from headrace.client.sync import connect, run


class Processes:
    """Three brokers and a ZooKeeper of `headrace dev`."""

    def __init__(self, place: Path) -> None:
        words = [sys.executable, "-m", "headrace.cli.main", "dev", "--processes", "3"]
        self.started = subprocess.Popen(
            [*words, "--port", "0", "--data", str(place)],
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        assert self.started.stdout is not None
        rows = [line.split() for line in (self.started.stdout.readline() for _ in range(5))]
        assert rows[0] == ["BROKER", "ADDRESS", "AMQP", "MANAGEMENT", "PID"]
        self.pids = {name: int(pid) for name, _, _, _, pid in rows[1:]}
        self.addresses = [address for _, address, _, _, _ in rows[1:4]]
        self.amqp_ports = [int(address.partition(":")[2]) for _, _, address, _, _ in rows[1:4]]
        self.management = [address for _, _, _, address, _ in rows[1:4]]

    def end(self) -> None:
        """End all by Ctrl-C."""
        self.started.send_signal(signal.SIGINT)
        assert self.started.wait(60) == 0
        assert self.started.stdout is not None
        self.started.stdout.close()
        for pid in self.pids.values():
            assert not Path(f"/proc/{pid}/stat").exists() or re.search(
                r"\) Z", Path(f"/proc/{pid}/stat").read_text()
            )

    def connect_to(self, number: int) -> pika.BlockingConnection:
        """Connect to the listener for RabbitMQ clients of a broker, the first of which is 1."""
        port = self.amqp_ports[number - 1]
        return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))


def publish(channel: Any, body: bytes) -> None:
    """Publish a persistent message until it is confirmed."""
    while True:
        try:
            channel.basic_publish("", "kept", body, pika.BasicProperties(delivery_mode=2))
        except pika.exceptions.NackError:
            continue
        return


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    found = Processes(tmp_path)
    try:
        yield found
    finally:
        found.end()


def test_killed_broker_leaves_a_cluster_of_two_that_has_all_messages(
    processes: Processes,
) -> None:
    assert list(processes.pids) == ["1", "2", "3", "ZooKeeper"]
    for number, address in enumerate(processes.management, 1):
        with urlopen(f"http://{address}/") as answer:
            assert f"broker headrace-{number}@".encode() in answer.read()
    with connect(processes.addresses[0], patient=True) as client:
        assert set(run(client.metadata([])).brokers) == {1, 2, 3}
        publisher, leader = processes.connect_to(1), processes.connect_to(2)
        leader.channel().queue_declare("kept", durable=True, arguments={"x-queue-type": "quorum"})
        channel = publisher.channel()
        channel.confirm_delivery()
        bodies = [str(number).encode() for number in range(40)]
        for number, body in enumerate(bodies):
            if number == 20:
                os.kill(processes.pids["2"], signal.SIGKILL)
            publish(channel, body)
        with processes.connect_to(3) as third:
            consumer = third.channel()
            found: dict[bytes, None] = {}  # a publish that was repeated may be there twice
            for method, _, body in consumer.consume("kept", inactivity_timeout=30):
                assert method is not None, found
                found[body] = None
                consumer.basic_ack(method.delivery_tag)
                if len(found) == len(bodies):
                    break
            assert [*found] == bodies
        deadline = time.monotonic() + 60
        while set(run(client.metadata([])).brokers) != {1, 3}:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        publisher.close()
