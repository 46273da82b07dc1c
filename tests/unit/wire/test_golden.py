"""Every batch that real Kafka wrote parses, and says what a real client read from it."""

import gzip
import hashlib
import json
import tarfile
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from headrace.record import batch
from headrace.wire.kafka.coordinator_records import consumer_offsets, transaction_state

GOLDEN = Path(__file__).parents[2] / "golden"
ARCHIVES = ["kafka-3.9.2-clean", "kafka-4.3.1-clean"]
ALL = [*ARCHIVES, "kafka-3.9.0-zk-logdir"]


@cache
def segments(archive: str) -> dict[str, list[bytes]]:
    """Partition directory -> its segments' bytes in order."""
    found: dict[str, list[tuple[str, bytes]]] = defaultdict(list)
    with tarfile.open(GOLDEN / f"{archive}.tgz") as tar:
        for member in tar:
            path = Path(member.name)
            if path.suffix == ".log":
                content = tar.extractfile(member)
                assert content is not None
                found[path.parent.name].append((path.name, content.read()))
    return {name: [data for _, data in sorted(files)] for name, files in found.items()}


def batches(data: bytes) -> Iterator[tuple[memoryview, batch.BatchHeader]]:
    view, end = memoryview(data), 0
    for at, header in batch.iterate(view):
        assert at == end
        end = at + batch.size_of(header)
        yield view[at:end], header
    assert end == len(data)


def digest(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()[:16]


def row(record: batch.Record, header: batch.BatchHeader) -> list[Any]:
    kind = 2 if header.attributes & batch.LOG_APPEND_TIME else 1
    names = [[name, digest(value)] for name, value in record.headers]
    key, value = digest(record.key), digest(record.value)
    return [record.offset, kind, record.timestamp, key, value, names]


@pytest.mark.parametrize("archive", ARCHIVES)
def test_records_are_those_a_client_read_from_kafka(archive: str) -> None:
    expected = json.loads(gzip.decompress((GOLDEN / f"{archive}.expected.json.gz").read_bytes()))
    logs = segments(archive)
    for name, wanted in expected["read_uncommitted"].items():
        low, _ = expected["watermarks"][name]
        rows = [
            row(record, header)
            for data in logs[name]
            for view, header in batches(data)
            if not header.attributes & batch.CONTROL
            for record in batch.records(view)
            if record.offset >= low
        ]
        assert rows == wanted, name


@pytest.mark.parametrize("archive", ALL)
def test_every_batch_keeps_its_checksum(archive: str) -> None:
    count = 0
    for parts in segments(archive).values():
        for data in parts:
            for view, header in batches(data):
                assert batch.crc_ok(view, header)
                count += 1
    assert count > 50


@pytest.mark.parametrize("archive", ALL)
def test_coordinators_records_come_back_byte_for_byte(archive: str) -> None:
    kinds: dict[str, int] = defaultdict(int)
    for name, parts in segments(archive).items():
        topic = name.rpartition("-")[0]
        if topic not in {"__consumer_offsets", "__transaction_state"}:
            continue
        for data in parts:
            for view, header in batches(data):
                if header.attributes & batch.CONTROL:
                    continue
                for record in batch.records(view):
                    kinds[there_and_back(topic, record)] += 1
    assert kinds["OffsetKey"] > 0
    assert kinds["TransactionKey"] > 0


def there_and_back(topic: str, record: batch.Record) -> str:
    assert record.key is not None
    if topic == "__transaction_state":
        transaction = transaction_state.decode_key(record.key)
        assert transaction_state.encode_key(transaction) == record.key
        if record.value is not None:
            state = transaction_state.decode_value(record.value)
            assert transaction_state.encode_value(state) == record.value
        return type(transaction).__name__
    key = consumer_offsets.decode_key(record.key)
    assert consumer_offsets.encode_key(key) == record.key
    if record.value is not None and isinstance(key, consumer_offsets.OffsetKey):
        offset = consumer_offsets.decode_offset_value(record.value)
        assert consumer_offsets.encode_offset_value(offset) == record.value
    if record.value is not None and isinstance(key, consumer_offsets.GroupKey):
        group = consumer_offsets.decode_group_value(record.value)
        assert consumer_offsets.encode_group_value(group) == record.value
    return type(key).__name__


@pytest.mark.parametrize("archive", ARCHIVES)
def test_committed_offsets_are_those_a_client_was_told(archive: str) -> None:
    expected = json.loads(gzip.decompress((GOLDEN / f"{archive}.expected.json.gz").read_bytes()))
    found = dict(committed_offsets(archive))
    assert expected["committed"]
    for name, (partition, offset, metadata) in told(expected["committed"]):
        assert found[f"{name}/{partition}"] == (offset, metadata or "")


def committed_offsets(archive: str) -> Iterator[tuple[str, tuple[int, str]]]:
    for name, parts in segments(archive).items():
        if not name.startswith("__consumer_offsets-"):
            continue
        for view, _ in (each for data in parts for each in batches(data)):
            for record in batch.records(view):
                key = consumer_offsets.decode_key(record.key or b"")
                if isinstance(key, consumer_offsets.OffsetKey) and record.value is not None:
                    value = consumer_offsets.decode_offset_value(record.value)
                    # librdkafka commits its metadata with the C string's end, and loses it
                    # again where it reads.
                    metadata = value.metadata.rstrip("\0")
                    yield f"{key.group}/{key.topic}/{key.partition}", (value.offset, metadata)


def told(committed: dict[str, Any]) -> Iterator[tuple[str, tuple[int, int, str | None]]]:
    for name, rows in committed.items():
        for row_ in rows:
            yield name, tuple(row_)
