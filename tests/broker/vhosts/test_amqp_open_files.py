"""Descriptors of durable queues' logs: `log.open.files.max` bounds them, as those of topics."""

import os
from pathlib import Path

from headrace.testing import BrokerThread
from headrace.wire.amqp.model_methods import QueueDeclare, QueueDeclareOk
from tests.support.amqp.wire import AmqpWire
from tests.support.queues.restarts import SETTINGS, Started

QUEUES = 60
OPEN_MAX = 16


def open_logs(directory: Path) -> int:
    """Count this process's descriptors of segments below a directory."""
    found = 0
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink(f"/proc/self/fd/{descriptor}")
        except OSError:
            continue
        found += path.startswith(str(directory)) and path.endswith(".log")
    return found


def test_logs_of_queues_hold_no_more_descriptors_than_the_setting(tmp_path: Path) -> None:
    settings = SETTINGS | {"log.open.files.max": str(OPEN_MAX)}
    started = Started(tmp_path, settings)
    for number in range(QUEUES):
        started.declare(f"q{number}")
        started.publish(b"kept", key=f"q{number}")
    assert len(list(tmp_path.glob("__amqp.queue.q*-0/*.log"))) == QUEUES
    assert 0 < open_logs(tmp_path) <= OPEN_MAX
    for number in range(QUEUES):
        got = started.get(f"q{number}")
        assert got is not None
        assert got[0] == b"kept"
    assert open_logs(tmp_path) <= OPEN_MAX
    started.stop()


def test_listeners_of_two_addresses_have_names_of_their_own(tmp_path: Path) -> None:
    settings = SETTINGS | {
        "listeners": "PLAINTEXT://127.0.0.1:0,AMQP://127.0.0.1:0,AMQP6://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,AMQP6:AMQP",
    }
    with BrokerThread(settings, directory=str(tmp_path)) as broker:
        ports = broker.call(lambda server: [listener.port for listener in server.listeners])
        for port in ports[1:]:
            client = AmqpWire(port)
            assert isinstance(client.ask(QueueDeclare(queue="q")), QueueDeclareOk)
            client.close()
