"""Our broker, of this tree, with listeners for RocketMQ's and Kafka's clients."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.outside.rocketmq.address import Address
from tests.support.processes.process import BrokerProcess, free_port
from tests.support.security.certificates import Authority

SETTINGS = {
    "rocketmq.recall.message.enable": "true",
    "rocketmq.transaction.timeout.ms": "1000",
    "rocketmq.transaction.check.interval.ms": "1000",
    # Whatever else is on the machine's disk.
    "rocketmq.disk.clean.used.percent": "100",
    "rocketmq.disk.max.used.percent": "100",
}


@contextmanager
def headrace(place: Path) -> Iterator[Address]:
    """Run `headrace serve` for a while, with TLS for clients that ask for it."""
    kafka, port = free_port(), free_port()
    settings = SETTINGS | {
        "listeners": f"PLAINTEXT://127.0.0.1:{kafka},ROCKETMQ://127.0.0.1:{port}",
        "ssl.keystore.location": str(Authority(place).sign().both),
    }
    broker = BrokerProcess(place / "broker", kafka)
    broker.settings |= settings
    with broker:
        yield Address(port, port)
