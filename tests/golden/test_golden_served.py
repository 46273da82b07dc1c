"""A broker started on a real Kafka's directory serves exactly what Kafka's client read from it."""

import gzip
import hashlib
import json
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.processes.process import BrokerProcess

HERE = Path(__file__).parent
VERSIONS = ["3.9.2", "4.3.1"]
SETTINGS: dict[str, Any] = {
    "log_retention_ms": -1,
    "offsets_topic_num_partitions": 5,
    "transaction_state_log_num_partitions": 5,
    "offsets_retention_minutes": 50_000_000,
}
Row = list[Any]
pytestmark = pytest.mark.filterwarnings("default")


def unpack(version: str, directory: Path) -> Path:
    with tarfile.open(HERE / f"kafka-{version}-clean.tgz") as archive:
        archive.extractall(directory, filter="data")
    return directory / f"kafka-{version}-clean"


@pytest.fixture(scope="module", params=VERSIONS)
def golden(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[BrokerProcess, dict[str, Any], Path]]:
    """A broker on an unpacked directory, what is expected of it, and the directory."""
    base = tmp_path_factory.mktemp("golden")
    log = unpack(request.param, base)
    with gzip.open(HERE / f"kafka-{request.param}-clean.expected.json.gz") as packed:
        expected = json.load(packed)
    with BrokerProcess(base / "broker", **SETTINGS | {"log_dirs": log}) as broker:
        yield broker, expected, log


def digest(content: bytes | None) -> str | None:
    return None if content is None else hashlib.sha256(content).hexdigest()[:16]


def reader(bootstrap: str, **settings: str) -> Consumer:
    base = {"bootstrap.servers": bootstrap, "group.id": "reader", "auto.offset.reset": "earliest"}
    extra = {name.replace("_", "."): value for name, value in settings.items()}
    checks = {"check.crcs": True, "enable.partition.eof": True}
    quick = {"fetch.wait.max.ms": 10, "enable.auto.commit": False}
    return Consumer(base | checks | quick | extra)


def read(bootstrap: str, place: str, isolation: str) -> list[Row]:
    """All records of a partition in the form of expected.json, up to the end the client sees."""
    topic, _, index = place.rpartition("-")
    consumer = reader(bootstrap, isolation_level=isolation)
    consumer.assign([TopicPartition(topic, int(index), 0)])
    rows: list[Row] = []
    deadline = time.monotonic() + 20
    ended = False
    while not ended:
        assert time.monotonic() < deadline, f"{len(rows)} records, and no end"
        for message in consumer.consume(5000, 0.05):
            if message.error() is not None:
                ended = message.error().name() == "_PARTITION_EOF"
                assert ended, message.error()
                continue
            kind, timestamp = message.timestamp()
            headers = [[name, digest(value)] for name, value in message.headers() or ()]
            rows.append(
                [
                    message.offset(),
                    kind,
                    timestamp,
                    digest(message.key()),
                    digest(message.value()),
                    headers,
                ]
            )
    consumer.close()
    return rows


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_every_record_is_read_as_kafka_served_it(
    golden: tuple[BrokerProcess, dict[str, Any], Path], isolation: str
) -> None:
    broker, expected, _ = golden
    for place, rows in expected[isolation].items():
        assert read(broker.bootstrap, place, isolation) == rows, place


def test_watermarks_and_offsets_for_times_are_kafkas(
    golden: tuple[BrokerProcess, dict[str, Any], Path],
) -> None:
    broker, expected, _ = golden
    consumer = reader(broker.bootstrap, isolation_level="read_uncommitted")
    for place, marks in expected["watermarks"].items():
        topic, _, index = place.rpartition("-")
        at = TopicPartition(topic, int(index))
        assert list(consumer.get_watermark_offsets(at, timeout=10)) == marks, place
    for asked, offset in expected["offsets_for_times"].items():
        place, _, timestamp = asked.rpartition("@")
        topic, _, index = place.rpartition("-")
        wanted = [TopicPartition(topic, int(index), int(timestamp))]
        found = consumer.offsets_for_times(wanted, timeout=10)[0].offset
        assert max(found, -1) == offset, asked
    consumer.close()


def test_committed_group_offsets_are_kafkas(
    golden: tuple[BrokerProcess, dict[str, Any], Path],
) -> None:
    broker, expected, _ = golden
    for name, rows in expected["committed"].items():
        group, _, topic = name.partition("/")
        consumer = reader(broker.bootstrap, group_id=group)
        wanted = [TopicPartition(topic, index) for index, _, _ in rows]
        found = consumer.committed(wanted, timeout=20)
        assert [[each.partition, each.offset, each.metadata] for each in found] == rows
        consumer.close()


def test_topics_keep_their_ids_and_the_metadata_log_is_hidden_and_untouched(
    golden: tuple[BrokerProcess, dict[str, Any], Path], tmp_path: Path
) -> None:
    broker, expected, log = golden
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    topics = set(admin.list_topics(timeout=10).topics)
    assert {place.rpartition("-")[0] for place in expected["watermarks"]} <= topics
    assert "__cluster_metadata" not in topics
    original = unpack(log.name.removeprefix("kafka-").removesuffix("-clean"), tmp_path)
    untouched = [*original.glob("__cluster_metadata-0/*"), *original.glob("*/partition.metadata")]
    untouched += [original / "meta.properties"]
    assert len(untouched) > 10
    for path in untouched:
        assert (log / path.relative_to(original)).read_bytes() == path.read_bytes(), path
