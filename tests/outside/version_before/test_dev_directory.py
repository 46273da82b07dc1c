"""A directory of `headrace dev` of the version before, whose first broker alone served AMQP."""

import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.processes.dev_process import amqp_ports, trial
from tests.support.processes.process import HEADRACE
from tests.support.version_before.compare import differences
from tests.support.version_before.fill_amqp import BINDINGS, QUEUES, declare, messages, settle
from tests.support.version_before.observe_amqp import STREAMS, queue, stream

TOPICS = ("v-read-by-amqp", "v-exchange")
ENDS = {"stopped": signal.SIGINT, "killed": signal.SIGKILL}
SOCKETS = shutil.ignore_patterns("*.sock")  # a killed broker leaves its own
pytestmark = pytest.mark.timeout(300)


@contextmanager
def channel(place: Path, broker: int = 0) -> Iterator[Any]:
    """Open a channel of the user guest at a broker of the running trial."""
    port = amqp_ports(place)[broker]
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)) as connection:
        yield connection.channel()


def fill(place: Path, headrace: Path, end: signal.Signals) -> None:
    """Write every kind of queue, with settled messages, by this version's first broker."""
    data = str(place / "data")
    with trial(place, "--data", data, headrace=headrace, end=end) as bootstrap:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        # That version stores messages in topics of its first broker only.
        new = [NewTopic(topic, 1, replica_assignment=[[1]]) for topic in TOPICS]
        for made in admin.create_topics(new).values():
            made.result(30)
        with channel(place) as opened:
            declare(opened)
            messages(opened)
            settle(opened)
            opened.connection.sleep(1)  # settled state is on disk after 100 ms, or one flush


def observe(place: Path, data: Path, headrace: Path, broker: int = 0) -> dict[str, Any]:
    """Read all messages at one broker, and check declarations by declaring them again."""
    with trial(place, "--data", str(data), headrace=headrace), channel(place, broker) as opened:
        for name, arguments in QUEUES.items():
            opened.queue_declare(name, durable=True, arguments=arguments)
        found: dict[str, Any] = {
            name: stream(opened, name) if name in STREAMS else queue(opened, name)
            for name in QUEUES
        }
        for number, (exchange, _, key, arguments) in enumerate(BINDINGS):
            headers = {name: value for name, value in arguments.items() if name != "x-match"}
            properties = pika.BasicProperties(delivery_mode=2, headers=headers)
            opened.confirm_delivery()
            key = key.replace("#", "x").replace("*", "x")
            opened.basic_publish(exchange, key, b"routed %d" % number, properties, mandatory=True)
        return found


@pytest.mark.parametrize("end", ENDS)
def test_dev_directory_of_the_version_before_has_all_at_each_broker(
    end: str, headrace_before: Path, tmp_path: Path
) -> None:
    fill(tmp_path, headrace_before, ENDS[end])
    for name in ("before", "first", "third"):
        shutil.copytree(tmp_path / "data", tmp_path / name, ignore=SOCKETS)
    wanted = observe(tmp_path, tmp_path / "before", headrace_before)
    assert wanted["classic"]
    found = observe(tmp_path, tmp_path / "first", HEADRACE)
    assert [*differences(wanted, found)] == []
    found = observe(tmp_path, tmp_path / "third", HEADRACE, broker=2)
    assert [*differences(wanted, found)] == []
