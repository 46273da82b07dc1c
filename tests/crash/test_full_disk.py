"""A disk that is really full: a file system of 8 MB, filled by a producer."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.processes.process import BrokerProcess

DISK_BYTES = 8 << 20
BALLAST_BYTES = 2 << 20
"""Of the disk, taken by something else at first: what the operator frees."""
SPARE_BYTES = 128 << 10
"""What a start needs for itself: the metadata store notes each one."""
VALUE_BYTES = 10_000
TOPIC = "fills"
READ_SECONDS = 60
DELIVERY_MS = 5_000
"""A client that knows already that the partition is led by nobody asks until then."""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A directory that holds `DISK_BYTES` and no more."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(place)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no file system of its own: mounting is not permitted here ({error})")
    yield place
    subprocess.run(["umount", str(place)], check=True)


class Filler:
    """Produces numbered records with acks=all, without retries, and keeps what was answered."""

    def __init__(self, broker: BrokerProcess) -> None:
        settings = {"bootstrap.servers": broker.bootstrap, "acks": "all", "retries": 0}
        settings |= {"linger.ms": 2, "batch.size": 100_000, "log_level": 0}
        settings |= {"message.timeout.ms": DELIVERY_MS}
        self._producer = Producer(settings)
        self._sent = 0
        self.acknowledged: dict[int, bytes] = {}
        """Value by offset."""
        self.refusals: list[int] = []

    def until_refused(self) -> None:
        """Write until the broker refuses, several times what fits at most."""
        while not self.refusals and self._sent * VALUE_BYTES < 4 * DISK_BYTES:
            self.write(20)

    def write(self, count: int) -> None:
        for _ in range(count):
            value = b"%08d" % self._sent + bytes(VALUE_BYTES)
            self._sent += 1
            self._producer.produce(TOPIC, value, partition=0, on_delivery=self._answered)
        assert self._producer.flush(30) == 0

    def _answered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.refusals.append(error.code())
            return
        offset, value = message.offset(), message.value()
        assert offset is not None
        assert isinstance(value, bytes)
        self.acknowledged[offset] = value


def read_all(broker: BrokerProcess) -> dict[int, bytes]:
    """Value by offset of everything that is readable."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "checks"}
    consumer = Consumer(settings | {"enable.auto.commit": False})
    try:
        start = TopicPartition(TOPIC, 0, 0)
        _, end = consumer.get_watermark_offsets(start, timeout=10)
        consumer.assign([start])
        found: dict[int, bytes] = {}
        deadline = time.monotonic() + READ_SECONDS
        while len(found) < end:
            assert time.monotonic() < deadline, f"{len(found)} of {end} records"
            for message in consumer.consume(500, timeout=0.5):
                assert message.error() is None, message.error()
                offset, value = message.offset(), message.value()
                assert offset is not None
                assert isinstance(value, bytes)
                found[offset] = value
        return found
    finally:
        consumer.close()


def until_group_is_served(broker: BrokerProcess) -> None:
    """Commit once as the readers' group: its coordinator's topic has been made then."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "checks"})
    try:
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, 0)], asynchronous=False)
    finally:
        consumer.close()


def lost(broker: BrokerProcess, filler: Filler) -> set[int]:
    """Offsets that were acknowledged and do not hold their value now."""
    found = read_all(broker)
    return {at for at, value in filler.acknowledged.items() if found.get(at) != value}


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
def test_a_full_disk_is_refused_by_name_and_what_was_acknowledged_returns(
    small_disk: Path, tmp_path: Path, killed: bool
) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(BALLAST_BYTES))
    broker = BrokerProcess(tmp_path / "broker", log_dirs=small_disk / "log")
    try:
        broker.start()
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(10)
        # Readers are in a group: its topic is to be there before the disk is full.
        until_group_is_served(broker)
        filler = Filler(broker)
        filler.until_refused()
        assert filler.refusals[0] == KafkaError.KAFKA_STORAGE_ERROR
        assert set(filler.refusals) <= {KafkaError.KAFKA_STORAGE_ERROR, KafkaError._MSG_TIMED_OUT}
        assert filler.acknowledged

        filler.refusals.clear()
        filler.write(1)
        assert filler.refusals, "a fenced directory takes nothing"
        assert broker.process is not None
        assert broker.process.poll() is None
        assert admin.list_topics(timeout=5).brokers, "other requests are answered"
        assert str(small_disk / "log") in broker.output

        if killed:
            broker.kill()
        else:
            assert broker.stop() == 0, broker.output
        os.truncate(ballast, BALLAST_BYTES - SPARE_BYTES)
        broker.start()  # on the full disk: to read, the logs need no space
        assert not lost(broker, filler)
        broker.kill()

        ballast.unlink()
        broker.start()
        assert not lost(broker, filler)
        again = Filler(broker)
        again.write(5)
        assert len(again.acknowledged) == 5
        assert not again.refusals
        assert min(again.acknowledged) > max(filler.acknowledged)
    finally:
        broker.kill()
