"""Brokers that speak AMQP: ours with a listener for it, and RabbitMQ 4.3.

Where a write is to be on disk before it is acknowledged, RabbitMQ's answer is its quorum queue, and
its classic one confirms what the page cache has. So `durable` says what queues a program declares,
with either broker, and of ours whether it flushes.
"""

import os
import signal
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bench.checkouts import HERE, Checkout
from bench.process_tree import cpu_seconds, memory_megabytes, named, process_tree
from bench.subjects import Broker, Headrace, Subject, free_port
from tests.outside.amqp.address import Address, answers
from tests.outside.amqp.peer import RABBITMQ_4_3, RabbitMQ, prepared

STOP_SECONDS_MAX = 60.0


def queue_type(durable: bool) -> str:
    """The `x-queue-type` of a pairing; empty: a program says nothing, which means classic."""
    return "quorum" if durable else ""


@dataclass
class QueueHeadrace(Headrace):
    """Ours with a listener for AMQP."""

    amqp_port: int = field(default_factory=free_port)

    @property
    def listeners(self) -> str:
        return f"{super().listeners},AMQP://{self.amqp_address}"

    @property
    def amqp_address(self) -> str:
        return f"127.0.0.1:{self.amqp_port}"

    def prepare(self) -> None:
        super().prepare()
        with (self.directory / "server.properties").open("a") as properties:
            properties.write("amqp.guest=true\n")

    def wait_ready(self) -> None:
        super().wait_ready()
        while not answers(Address(port=self.amqp_port)):
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.name} ended")


@dataclass
class QueueRabbit(Broker):
    """RabbitMQ 4.3 from Debian's package, one node, as it is configured there."""

    node: RabbitMQ = field(init=False)

    def __post_init__(self) -> None:
        self.name = "rabbitmq"

    @property
    def amqp_address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def prepare(self) -> None:
        """Nothing: the node writes its own."""

    def place(self) -> None:
        self.node = RabbitMQ(prepared(release=RABBITMQ_4_3))
        self.port = self.node.address.port

    def command(self) -> list[str]:
        return self.node.command

    def start(self) -> None:
        self.started = time.monotonic()
        self.node.start()

    def wait_ready(self) -> None:
        """It is: the node's start returns when it answers."""

    def stop(self) -> None:
        """SIGTERM to the Erlang machine: it stops in order."""
        for process_id in named(process_tree(self.node.process_id), "beam.smp"):
            os.kill(process_id, signal.SIGTERM)
        self.node.wait(STOP_SECONDS_MAX)

    def remove(self) -> None:
        self.node.stop()

    def cpu_seconds(self) -> float:
        """Of all its processes."""
        return cpu_seconds(process_tree(self.node.process_id))

    def rss_megabytes(self) -> float:
        """Of all its processes; what they share is counted once."""
        return memory_megabytes(process_tree(self.node.process_id))


OURS = Subject("headrace", QueueHeadrace, HERE)
RABBITMQ = Subject("rabbitmq", QueueRabbit, None)


def another(root: Path) -> Subject:
    """Another checkout of ours. ValueError: there is none."""
    checkout = Checkout.at("other", root)
    return Subject(checkout.name, partial(QueueHeadrace, checkout=checkout), checkout)
