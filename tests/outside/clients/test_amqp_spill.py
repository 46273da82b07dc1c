"""pika fills queues in memory with more than memory may hold, on a broker in its own process."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.exceptions import AMQPError

from tests.support.processes.process import BrokerProcess, free_port, headrace

MEGABYTE = 1 << 20
MARK = 4 * MEGABYTE
SECONDS = 60
BODY = 2000
COUNT = 20_000
"""Ten times the mark."""


class Served:
    """A broker whose queues in memory may hold little."""

    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        kafka_port = free_port()
        self.data = directory / "log"
        self.broker = BrokerProcess(
            directory,
            kafka_port,
            listeners=f"PLAINTEXT://127.0.0.1:{kafka_port},AMQP://127.0.0.1:{self.port}",
            amqp_guest="true",
            amqp_memory_bytes_max=MARK,
        )
        self.broker.start()

    @contextmanager
    def pika(self) -> Iterator[Any]:
        """A connection of pika."""
        parameters = pika.ConnectionParameters("127.0.0.1", self.port, heartbeat=0)
        connection = pika.BlockingConnection(parameters)
        try:
            yield connection
        finally:
            with suppress(AMQPError):
                connection.close()

    @property
    def files(self) -> list[str]:
        """The files of what is spilled."""
        return sorted(name for name in os.listdir(self.data) if "spill" in name)

    def rss(self) -> int:
        """The bytes of memory that the broker takes."""
        process = self.broker.process
        assert process is not None
        pages = Path(f"/proc/{process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def descriptors(self) -> int:
        """How many of these files are open."""
        process = self.broker.process
        assert process is not None
        return sum(
            "amqp-spill-" in os.readlink(descriptor)
            for descriptor in Path(f"/proc/{process.pid}/fd").iterdir()
            if descriptor.is_symlink()
        )


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("spill"))
    yield served
    with served.pika() as connection:
        channel = connection.channel()
        channel.queue_declare("left")
        fill(channel, "left", 4000)
        assert served.files != []
    served.broker.stop()
    assert served.files == []


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def body_of(number: int, size: int = BODY) -> bytes:
    """A body that begins with its number."""
    return (b"%d." % number).ljust(size, b"x")


def fill(channel: Any, queue: str, count: int, first: int = 0, size: int = BODY) -> None:
    """Publish messages, and wait until the broker has them."""
    for number in range(first, first + count):
        channel.basic_publish("", queue, body_of(number, size))
    until(lambda: channel.queue_declare(queue, passive=True).method.message_count >= count)


def drain(channel: Any, queue: str, count: int, size: int = BODY, *, no_ack: bool = True) -> None:
    """Consume messages, which are all there and in order."""
    channel.basic_qos(prefetch_count=300)
    given = channel.consume(queue, auto_ack=no_ack, inactivity_timeout=SECONDS)
    for number, (method, _, body) in zip(range(count), given, strict=False):
        assert method is not None, f"{number} came"
        assert body == body_of(number, size)
        if not no_ack:
            channel.basic_ack(method.delivery_tag)
    channel.cancel()


def test_ten_times_the_mark_is_taken_without_a_stop_and_drained_in_order(served: Served) -> None:
    before = served.rss()
    with served.pika() as connection:
        blocked: list[str] = []
        connection.add_on_connection_blocked_callback(
            lambda _, method: blocked.append(method.method.reason)
        )
        channel = connection.channel()
        channel.queue_declare("transient")
        fill(channel, "transient", COUNT)
        assert blocked == []
        assert served.files != []
        assert served.rss() - before < 8 * MARK
        told = headrace(served.broker.bootstrap, "amqp", "queue", "list", "--json")
        assert f'"messages_ready":{COUNT}' in told.replace(" ", "")
        assert f'"message_bytes_ready":{COUNT * BODY}' in told.replace(" ", "")
        drain(channel, "transient", COUNT)
        assert served.rss() - before < 8 * MARK
    until(lambda: served.files == [])
    assert served.descriptors() == 0


def test_it_is_so_with_confirms_and_acknowledgements_and_what_came_back_is_redelivered(
    served: Served,
) -> None:
    with served.pika() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("mine", exclusive=True)
        fill(channel, "mine", 2500, size=4000)
        assert served.files != []
        other = connection.channel()
        tags = [other.basic_get("mine")[0].delivery_tag for _ in range(1500)]
        assert tags == list(range(1, 1501))
        other.close()
        method, _, body = channel.basic_get("mine")
        assert (body, method.redelivered) == (body_of(0, 4000), True)
        channel.basic_nack(method.delivery_tag)
        drain(channel, "mine", 2500, 4000, no_ack=False)
    until(lambda: served.files == [])


def test_few_large_messages_are_as_good_as_many_small_ones(served: Served) -> None:
    before = served.rss()
    with served.pika() as connection:
        channel = connection.channel()
        channel.queue_declare("large")
        fill(channel, "large", 40, size=MEGABYTE)
        assert served.files != []
        drain(channel, "large", 40, MEGABYTE)
        assert served.rss() - before < 60 * MEGABYTE


def test_dead_letters_go_from_disk_to_disk(served: Served) -> None:
    with served.pika() as connection:
        channel = connection.channel()
        channel.queue_declare("dead")
        letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        channel.queue_declare("dying", arguments=letters)
        fill(channel, "dying", 4000)
        rejecting = connection.channel()
        for _ in range(2000):
            method, _, _ = rejecting.basic_get("dying")
            rejecting.basic_reject(method.delivery_tag, requeue=False)
        until(lambda: channel.queue_declare("dead", passive=True).method.message_count == 2000)
        assert channel.queue_delete("dying").method.message_count == 2000
        drain(channel, "dead", 2000)
    until(lambda: served.files == [])


def test_messages_of_age_die_on_disk_in_order(served: Served) -> None:
    with served.pika() as connection:
        channel = connection.channel()
        channel.queue_declare("dead")
        letters = {
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "dead",
            "x-message-ttl": 3000,
        }
        channel.queue_declare("aging", arguments=letters)
        for number in range(4000):
            channel.basic_publish("", "aging", body_of(number))
        until(lambda: channel.queue_declare("dead", passive=True).method.message_count == 4000)
        assert channel.queue_declare("aging", passive=True).method.message_count == 0
        drain(channel, "dead", 4000)
    until(lambda: served.files == [])


def test_a_purge_a_deletion_and_the_end_of_a_connection_leave_no_file(served: Served) -> None:
    with served.pika() as connection:
        channel = connection.channel()
        for name in ("purged", "deleted", "exclusive"):
            channel.queue_declare(name, exclusive=name == "exclusive")
            fill(channel, name, 4000)
        assert channel.queue_purge("purged").method.message_count == 4000
        assert channel.queue_delete("deleted").method.message_count == 4000
        assert served.files != []
    until(lambda: served.files == [])


def test_what_a_killed_broker_leaves_is_gone_after_its_start(served: Served) -> None:
    with served.pika() as connection:
        channel = connection.channel()
        channel.queue_declare("gone")
        fill(channel, "gone", 5000)
        served.broker.kill()
    assert served.files != []
    foreign = served.data / "headrace-amqp-spill-mine"
    foreign.write_bytes(b"keep")
    served.broker.start()
    assert served.files == [foreign.name]
    foreign.unlink()
    with served.pika() as connection:
        channel = connection.channel()
        assert channel.queue_declare("gone").method.message_count == 0
        fill(channel, "gone", 4000)
        assert served.files != []
        drain(channel, "gone", 4000)
    until(lambda: served.files == [])


def test_on_a_full_disk_publishers_are_held_up_and_all_that_was_taken_is_there(
    served: Served,
) -> None:
    full = [served.data / f"headrace-amqp-spill-{number:08d}" for number in range(300)]
    for path in full:
        path.symlink_to("/dev/full")  # a write finds no room
    with served.pika() as connection, served.pika() as beside:
        blocked: list[str] = []
        connection.add_on_connection_blocked_callback(
            lambda _, method: blocked.append(method.method.reason)
        )
        channel = connection.channel()
        channel.queue_declare("held")
        number = 0
        while not blocked:
            channel.basic_publish("", "held", body_of(number))
            connection.process_data_events(0)
            number += 1
            assert number * BODY < 4 * MARK
        assert blocked == ["low on memory"]
        assert served.broker.output.count("cannot be written to") == 1
        assert "No space left on device" in served.broker.output
        assert beside.channel().queue_declare("held", passive=True).method.message_count > 1000
        for path in full:
            path.unlink(missing_ok=True)
        until(lambda: "AMQP messages are written to" in served.broker.output)
        fill(channel, "held", 3000, first=number)
        drain(channel, "held", number + 3000)
    until(lambda: served.files == [])
