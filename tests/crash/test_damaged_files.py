"""Bits flipped in, and files missing from, the directory of a real broker; a real client looks.

One broker holds a topic for each kind of damage and one that nobody touches. After a clean stop or
a kill each is damaged in its own way and the broker started again: what it serves is what was
written, from the beginning on, offset by offset, or it is not served and said; the others do not
notice.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.log import file_names, text_files
from tests.support.processes.process import BrokerProcess

RECORDS = 60
WAIT_SECONDS_MAX = 20.0
FIRST_MS = 1_780_000_000_000
CONFIG = {
    "segment.bytes": "1500",
    "index.interval.bytes": "150",
    "retention.ms": "-1",
    "message.timestamp.before.max.ms": "9223372036854775807",
}
pytestmark = pytest.mark.filterwarnings("default")


def flip(suffix: str, at: int, number: int = 1) -> Callable[[Path], Path]:
    """Flip a bit of byte `at` of the `number`th file with that suffix."""

    def damage(directory: Path) -> Path:
        path = sorted(directory.glob(f"*{suffix}"))[number]
        content = bytearray(path.read_bytes())
        content[at] ^= 0x04
        path.write_bytes(content)
        return path

    return damage


def missing(suffix: str, number: int = 1) -> Callable[[Path], Path]:
    """Remove the `number`th file with that suffix."""

    def damage(directory: Path) -> Path:
        path = sorted(directory.glob(f"*{suffix}"))[number]
        path.unlink()
        return path

    return damage


@dataclass
class Case:
    """One kind of damage, and whether everything must be served in spite of it."""

    damage: Callable[[Path], Path]
    heals: bool


CASES = {
    "log-base-offset": Case(flip(".log", 7), heals=False),
    "log-length": Case(flip(".log", 10), heals=False),
    "log-epoch": Case(flip(".log", 15), heals=True),  # of no record: under no checksum
    "log-magic": Case(flip(".log", 16), heals=False),
    "log-checksum": Case(flip(".log", 18), heals=False),
    "log-attributes": Case(flip(".log", 22), heals=False),
    "log-body": Case(flip(".log", 90), heals=False),
    "log-later-batch": Case(flip(".log", -40), heals=False),
    "log-active": Case(flip(".log", 75, -1), heals=False),
    "log-active-offset": Case(flip(".log", 7, -1), heals=False),
    "log-missing": Case(missing(".log"), heals=False),
    "log-missing-active": Case(missing(".log", -1), heals=False),
    "index-position": Case(flip(".index", 7), heals=True),
    "index-offset": Case(flip(".index", 3), heals=True),
    "index-missing": Case(missing(".index"), heals=True),
    "timeindex-time": Case(flip(".timeindex", 6), heals=True),
    "timeindex-last": Case(flip(".timeindex", -6), heals=True),
    "timeindex-offset": Case(flip(".timeindex", 11), heals=True),
    "timeindex-missing": Case(missing(".timeindex"), heals=True),
    "snapshot": Case(flip(".snapshot", 20, -1), heals=True),
    "snapshot-missing": Case(missing(".snapshot", -1), heals=True),
    "epochs": Case(flip("leader-epoch-checkpoint", 4, 0), heals=True),
    "epochs-missing": Case(missing("leader-epoch-checkpoint", 0), heals=True),
    "metadata": Case(flip("partition.metadata", 25, 0), heals=False),
    "metadata-missing": Case(missing("partition.metadata", 0), heals=True),
}
SOUND = "sound"


def value_at(topic: str, offset: int) -> bytes:
    return f"{topic} {offset} ".encode() * 6


def fill(broker: BrokerProcess, topics: list[str]) -> None:
    """One record a batch, so that there are as many headers to hit as possible."""
    common = {"bootstrap.servers": broker.bootstrap}
    admin = AdminClient(common)
    for future in admin.create_topics([NewTopic(t, 1, 1, config=CONFIG) for t in topics]).values():
        future.result(30)
    settings = {"enable.idempotence": True, "linger.ms": 0, "batch.num.messages": 1}
    producer = Producer(common | settings)
    for offset in range(RECORDS):
        for topic in topics:
            stamp = FIRST_MS + offset
            producer.produce(topic, value_at(topic, offset), partition=0, timestamp=stamp)
        producer.poll(0)
    assert producer.flush(60) == 0


def read(broker: BrokerProcess, topic: str, start: int, patience: float = 2.5) -> dict[int, bytes]:
    """What a consumer gets from `start` on, until the end or until nothing more comes."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "looks", "log_level": 0}
    settings |= {"enable.auto.commit": False, "enable.partition.eof": True, "check.crcs": True}
    consumer = Consumer(settings | {"auto.offset.reset": "error", "fetch.wait.max.ms": 50})
    found: dict[int, bytes] = {}
    try:
        consumer.assign([TopicPartition(topic, 0, start)])
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            for message in consumer.consume(100, 0.3):
                if message.error() is not None:
                    return found
                found[message.offset()] = message.value()
                deadline = time.monotonic() + patience
    finally:
        consumer.close()
    return found


def wrong_answers(broker: BrokerProcess, topic: str) -> Iterator[str]:
    """What is served that was not written so, or skipped as if it were not there."""
    for start in (12, RECORDS - 5):
        found = read(broker, topic, start)
        if sorted(found) != list(range(start, start + len(found))):
            yield f"from {start}: offsets {sorted(found)}"
        for offset, value in found.items():
            if value != value_at(topic, offset):
                yield f"offset {offset} holds {value[:30]!r}"
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "t", "log_level": 0})
    try:
        for offset in (2, 11, 30, RECORDS - 1):
            asked = [TopicPartition(topic, 0, FIRST_MS + offset)]
            try:
                (answer,) = consumer.offsets_for_times(asked, timeout=2)
            except KafkaException:  # no answer is no wrong one
                return
            if answer.error is None and answer.offset != offset:
                yield f"time {offset} is told at {answer.offset}"
    finally:
        consumer.close()


@dataclass
class Damaged:
    """The broker after its start on the damaged directory."""

    broker: BrokerProcess
    said: str
    paths: dict[str, Path]


def wait_for_recovery_points(path: Path) -> None:
    """Until all that was written is below them."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    points: dict[str, int] = {}
    while any(points.get(name) != RECORDS for name in (*CASES, SOUND)):
        assert time.monotonic() < deadline, points
        time.sleep(0.05)
        if path.exists():
            found = text_files.read_offsets(path.read_bytes(), str(path))
            points = {one.topic: offset for one, offset in found.items()}


@pytest.fixture(scope="module", params=["stopped", "killed"])
def damaged(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Damaged]:
    place = tmp_path_factory.mktemp("damaged")
    broker = BrokerProcess(place, replica_high_watermark_checkpoint_interval_ms=300)
    try:
        broker.start()
        fill(broker, [*CASES, SOUND])
        if request.param == "stopped":
            assert broker.stop() == 0
        else:
            wait_for_recovery_points(place / "log" / file_names.RECOVERY_POINTS)
            broker.kill()
        paths = {name: case.damage(place / "log" / f"{name}-0") for name, case in CASES.items()}
        before = len(broker.output)
        broker.start()
        yield Damaged(broker, broker.output[before:], paths)
    finally:
        broker.kill()


@pytest.mark.parametrize("name", CASES)
def test_damage_is_healed_or_refused_and_never_served(damaged: Damaged, name: str) -> None:
    found = read(damaged.broker, name, 0, patience=30 if CASES[name].heals else 2.5)
    assert found == {offset: value_at(name, offset) for offset in range(len(found))}
    assert list(wrong_answers(damaged.broker, name)) == []
    if CASES[name].heals:
        assert len(found) == RECORDS
    if len(found) < RECORDS:
        told = damaged.broker.output
        segment = damaged.paths[name].name
        assert segment in told or f"{name}-0" in told, "not said"


def test_what_nobody_damaged_is_served_whole(damaged: Damaged) -> None:
    assert list(wrong_answers(damaged.broker, SOUND)) == []
    assert len(read(damaged.broker, SOUND, 0, patience=30)) == RECORDS
