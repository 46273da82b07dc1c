"""Directories written by real Kafkas load, and hold exactly what Kafka's client read from them."""

import functools
import gzip
import hashlib
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.config.log_config import LogConfig
from headrace.log.directory.log_directory import LogDirectory, read_identity
from headrace.log.log import Log
from headrace.logtools.dump import Row, UnknownFile, dump, kind_of
from headrace.model.nouns import Offset, TopicPartition
from headrace.record import batch as wire
from headrace.testing.clock import SimClock, SimRandom
from headrace.testing.disk import SimDisk
from tests.support.log.log import read

GOLDEN = Path(__file__).parent
BROKERS = ["kafka-3.9.2-clean", "kafka-4.3.1-clean"]
CONFIG = LogConfig(retention_ms=-1, file_delete_delay_ms=0)
Rows = list[list[Any]]


@functools.cache
def expected(broker: str) -> dict[str, Any]:
    with gzip.open(GOLDEN / f"{broker}.expected.json.gz") as packed:
        found: dict[str, Any] = json.load(packed)
        return found


@functools.cache
def archived(archive: str) -> tuple[tuple[str, bytes], ...]:
    with tarfile.open(GOLDEN / f"{archive}.tgz") as packed:
        found = []
        for member in packed.getmembers():
            content = packed.extractfile(member)
            if content is not None:
                found.append((member.name, content.read()))
        return tuple(found)


def disk_of(archive: str) -> SimDisk:
    disk = SimDisk()
    for name, content in archived(archive):
        path = "/" + name
        disk.make_directory(path.rpartition("/")[0])
        file = disk.open(path, create=True)
        file.write_at(0, (content,))
        file.close()
    disk.ops.clear()
    return disk


def opened(
    disk: SimDisk,
    path: str,
    *,
    clean: bool = True,
    config_of: Callable[[TopicPartition], LogConfig] = lambda _: CONFIG,
) -> LogDirectory:
    if not clean:
        disk.remove(f"{path}/.kafka_cleanshutdown")
    found = read_identity(disk, path)
    assert found is not None
    directory = LogDirectory.open(
        disk,
        SimClock(1_795_200_000_000),
        SimRandom(),
        path,
        broker_id=found.broker_id,
        cluster_id=found.cluster_id,
    )
    directory.load_blocking(config_of)
    return directory


@pytest.fixture(params=BROKERS)
def broker(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def short(content: bytes | None) -> str | None:
    return None if content is None else hashlib.sha256(content).hexdigest()[:16]


def batches(log: Log, end: int) -> list[tuple[wire.BatchHeader, bytes]]:
    found = []
    at = log.start_offset
    while at < end:
        result = read(log, at, 100_000, below=Offset(end))
        assert result.data
        data = bytes(result.data)
        for position, header in wire.iterate(data):
            found.append((header, data[position : position + wire.size_of(header)]))
        at = result.next_offset
    return found


def rows(log: Log, *, committed: bool) -> Rows:
    """What a client hands to its user, isolation level and all, in the form of expected.json."""
    end = log.last_stable_offset(log.high_watermark) if committed else log.high_watermark
    aborted = log.aborted_transactions(log.start_offset, end) if committed else []
    found: Rows = []
    for header, data in batches(log, end):
        if header.attributes & wire.CONTROL:
            continue
        if any(
            one.producer_id == header.producer_id
            and one.first_offset <= header.base_offset <= one.last_offset
            for one in aborted
        ):
            continue
        kind = 2 if header.attributes & wire.LOG_APPEND_TIME else 1
        for record in wire.records(data):
            if record.offset < log.start_offset:
                continue
            headers = [[key, short(value)] for key, value in record.headers]
            found.append(
                [
                    record.offset,
                    kind,
                    record.timestamp,
                    short(record.key),
                    short(record.value),
                    headers,
                ]
            )
    return found


def place_of(name: str) -> TopicPartition:
    topic, _, partition = name.rpartition("-")
    return TopicPartition(topic, int(partition))


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "recovered"])
@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_every_record_is_what_kafkas_client_read(broker: str, level: str, clean: bool) -> None:
    directory = opened(disk_of(broker), f"/{broker}", clean=clean)
    assert not directory.quarantined
    for name, wanted in expected(broker)[level].items():
        log = directory.logs[place_of(name)]
        assert rows(log, committed=level == "read_committed") == wanted, name
    directory.close(clean=False)


def test_watermarks_are_kafkas(broker: str) -> None:
    directory = opened(disk_of(broker), f"/{broker}")
    for name, (low, high) in expected(broker)["watermarks"].items():
        log = directory.logs[place_of(name)]
        assert (log.start_offset, log.high_watermark, log.end_offset) == (low, high, high), name
    directory.close(clean=False)


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "recovered"])
def test_offsets_for_times_are_kafkas(broker: str, clean: bool) -> None:
    directory = opened(disk_of(broker), f"/{broker}", clean=clean)
    for question, wanted in expected(broker)["offsets_for_times"].items():
        name, _, timestamp = question.partition("@")
        found = directory.logs[place_of(name)].offset_for_time(int(timestamp))
        assert (found[1] if found else -1) == wanted, question
    directory.close(clean=False)


def test_identity_and_foreign_files_are_kept_to_the_byte(broker: str) -> None:
    disk = disk_of(broker)
    opened(disk, f"/{broker}").close()
    foreign = ("meta.properties", "bootstrap.checkpoint", "cleaner-offset-checkpoint")
    for name, content in archived(broker):
        kept = name.endswith(foreign) or "__cluster_metadata-0/" in name or name.endswith(".log")
        if kept:
            file = disk.open("/" + name)
            assert file.read(0, file.size()) == content, name
            file.close()


def test_opening_and_closing_changes_no_segment_and_no_index(broker: str) -> None:
    disk = disk_of(broker)
    opened(disk, f"/{broker}").close()
    before = {f"/{name}": content for name, content in archived(broker)}
    directories = {path.rpartition("/")[0] for path in before}
    after = {}
    for path in directories:
        for name in disk.list(path):
            if not disk.is_directory(f"{path}/{name}"):
                file = disk.open(f"{path}/{name}")
                after[f"{path}/{name}"] = file.read(0, file.size())
                file.close()
    suffixes = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", "partition.metadata")
    names = {path for path in before | after if path.endswith(suffixes)}
    changed = {path for path in names if before.get(path) != after.get(path)}
    # Expired producers (May against November 2026) are what a snapshot may lose.
    assert {path for path in changed if not path.endswith(".snapshot")} == set()


def test_rebuilt_indexes_are_kafkas_own_to_the_byte(broker: str) -> None:
    """Everything beside the segments thrown away, recovery writes again what Kafka wrote."""
    disk = disk_of(broker)
    path = f"/{broker}"
    beside = (".index", ".timeindex", ".txnindex")
    for name, _ in archived(broker):
        if name.endswith((*beside, "recovery-point-offset-checkpoint")) and "__cl" not in name:
            disk.remove(f"/{name}")
    dense = {"g-plain"} if "3.9" in broker else set()
    config_of = lambda place: LogConfig(  # noqa: E731
        retention_ms=-1, index_interval_bytes=512 if place.topic in dense else 4096
    )
    directory = opened(disk, path, clean=False, config_of=config_of)
    assert not directory.quarantined
    directory.close()
    wanted = {f"/{name}": content for name, content in archived(broker) if name.endswith(beside)}
    assert len(wanted) > 50
    for name, content in wanted.items():
        file = disk.open(name)
        assert file.read(0, file.size()) == content, name
        file.close()


def test_a_directory_with_deletions_under_way_loads_and_finishes_them() -> None:
    archive = "kafka-3.9.0-zk-logdir"
    disk = disk_of(archive)
    path = "/" + disk.list("/")[0]
    directory = opened(disk, path)
    assert not [name for name in disk.list(path) if name.endswith("-delete")]
    log = directory.logs[TopicPartition("golden", 0)]
    assert log.end_offset == 318
    assert [segment.base_offset for segment in log.segments] == [0, 300]
    directory.close()


def dumped(disk: SimDisk, path: str, *, records: bool = False) -> list[Row]:
    file = disk.open(path, writable=False)
    return list(dump(path, file.size(), file.read, records=records))


def test_dump_of_the_segments_agrees_with_what_kafkas_client_read(broker: str) -> None:
    disk = disk_of(broker)
    for name, wanted in expected(broker)["read_uncommitted"].items():
        low = expected(broker)["watermarks"][name][0]
        found = []
        for file in disk.list(f"/{broker}/{name}"):
            if not file.endswith(".log"):
                continue
            control, kind = False, 1
            for row in dumped(disk, f"/{broker}/{name}/{file}", records=True):
                if "base_offset" in row:
                    control = bool(row["control"])
                    kind = 2 if row["timestamp_type"] == "LogAppendTime" else 1
                elif not control and int(str(row["offset"])) >= low:
                    key, value = row["key"], row["value"]
                    assert key is None or isinstance(key, bytes)
                    assert value is None or isinstance(value, bytes)
                    headers = row["headers"]
                    assert isinstance(headers, list)
                    shorts = [[one, short(two)] for one, two in headers]
                    found.append(
                        [row["offset"], kind, row["timestamp"], short(key), short(value), shorts]
                    )
        assert found == wanted, name


@pytest.mark.parametrize("archive", [*BROKERS, "kafka-3.9.0-zk-logdir"])
def test_every_file_there_is_can_be_dumped(archive: str) -> None:
    disk = disk_of(archive)
    kinds = set()
    for name, content in archived(archive):
        rows_of = dumped(disk, f"/{name}", records=True)
        kinds.add(kind_of(name))
        empty = not content.strip(bytes(1))
        nothing = name.endswith((".snapshot", ".lock", "-offset-checkpoint", "epoch-checkpoint"))
        assert rows_of or empty or nothing, name
    assert {".log", ".index", ".timeindex", ".txnindex", ".snapshot", "meta.properties"} <= kinds


def test_dump_tells_committed_offsets_of_groups_in_words(broker: str) -> None:
    disk = disk_of(broker)
    latest: dict[tuple[str, str, int], list[Any]] = {}
    for partition in range(5):
        place = f"/{broker}/__consumer_offsets-{partition}"
        for file in disk.list(place):
            if file.endswith(".log"):
                for row in dumped(disk, f"{place}/{file}", records=True):
                    if row.get("type") == "OffsetKey":
                        key, value = row["key"], row["value"]
                        assert isinstance(key, dict)
                        assert isinstance(value, dict)
                        at = key["group"], key["topic"], key["partition"]
                        # librdkafka commits the NUL that ends its C string, too.
                        metadata = value["metadata"].rstrip("\0")
                        latest[at] = [key["partition"], value["offset"], metadata]
    for name, wanted in expected(broker)["committed"].items():
        group, _, topic = name.partition("/")
        found = [latest[at] for at in sorted(latest) if at[:2] == (group, topic)]
        assert found == wanted


def test_dump_tells_transactions_in_words(broker: str) -> None:
    disk = disk_of(broker)
    states = set()
    for partition in range(5):
        place = f"/{broker}/__transaction_state-{partition}"
        for file in disk.list(place):
            if file.endswith(".log"):
                for row in dumped(disk, f"{place}/{file}", records=True):
                    value = row.get("value")
                    if isinstance(value, dict):
                        states.add(value["status"].name)
    assert {"ONGOING", "PREPARE_COMMIT", "COMPLETE_COMMIT", "COMPLETE_ABORT"} <= states


def test_dump_of_a_txnindex_names_the_transactions_that_readers_leave_out(broker: str) -> None:
    disk = disk_of(broker)
    directory = opened(disk, f"/{broker}")
    for topic in ("g-txn-0", "g-txn-1"):
        log = directory.logs[place_of(topic)]
        found = []
        for file in disk.list(f"/{broker}/{topic}"):
            if file.endswith(".txnindex"):
                found += dumped(disk, f"/{broker}/{topic}/{file}")
        aborted = log.aborted_transactions(log.start_offset, log.end_offset)
        assert [row["last_offset"] for row in found] == [one.last_offset for one in aborted]
        assert found
    directory.close(clean=False)


def test_a_file_that_no_log_directory_has_is_refused_by_name() -> None:
    with pytest.raises(UnknownFile, match=r"holiday\.jpg"):
        dump("/data/holiday.jpg", 3, lambda at, size: b"abc"[at : at + size])


def test_topic_ids_come_from_partition_metadata(broker: str) -> None:
    directory = opened(disk_of(broker), f"/{broker}")
    ids = {place.topic: log.topic_id for place, log in directory.logs.items()}
    assert len(set(ids.values())) == len(ids)
    assert bytes(16) not in ids.values()
    directory.close(clean=False)
