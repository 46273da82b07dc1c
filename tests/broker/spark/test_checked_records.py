"""Records of rows that fail a check: read again by their position, spooled and merged once."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa

from headrace.client.admin.delete_records import delete_records
from headrace.client.admin.topics import delete_topic
from headrace.client.client import Client
from headrace.client.producer.producer import Producer
from headrace.client.sync import connect, run
from headrace.model.nouns import TopicPartition
from headrace.spark.checks.check import Check, Outcome
from headrace.spark.checks.division import Division
from headrace.spark.checks.options import RowChecks
from headrace.spark.errors import DataLossError, SourceError, TooManyRefusedError
from headrace.spark.quarantine import check_task, range_task
from headrace.spark.quarantine.check_task import spool_failed
from headrace.spark.quarantine.manifest import Manifest, read_manifest, write_manifest
from headrace.spark.quarantine.options import SinkQuarantine
from headrace.spark.quarantine.record_file import RecordFile
from headrace.spark.quarantine.refused import SCHEMA, RefusedRecord
from headrace.spark.quarantine.sink_batch import CheckedRows, QuarantinedBatch
from headrace.spark.quarantine.spool import BatchRun, Planned, RangeSpool, Spool
from headrace.spark.security import NO_SECURITY
from headrace.spark.source.offsets import Position, text_of_id
from headrace.spark.source.read import RangeReader
from headrace.testing import BrokerThread

AT = BatchRun("q", 3, "run")
CHECKS = RowChecks((Check("c", "x", Outcome.QUARANTINE),), "t", None, "ab")
HEADERS = [("h", b"\x00\xff"), ("h", None)]
TIME_MS = 1_700_000_000_123


class Context:
    """The local properties of a Spark task."""

    def get(self) -> "Context":
        return self

    def getLocalProperty(self, name: str) -> str:  # noqa: N802 - Spark's name
        return {
            "sql.streaming.queryId": "q", "streaming.sql.batchId": "3", "spark.jobGroup.id": "run",
        }[name]  # fmt: skip


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[BrokerThread]:
    """A broker with 40 records in each of the two partitions of `t`."""
    monkeypatch.setenv("HEADRACE_NUMBA", "0")
    monkeypatch.setattr(range_task, "TaskContext", Context())
    with BrokerThread() as started, connect(started.bootstrap) as client:
        started.create_topics("t", partitions=2)
        append(client, 40)
        yield started


def append(client: Client, count: int) -> None:
    producer = Producer(client)
    for partition in (0, 1):
        for number in range(count):
            key = b"k%d" % number if number % 2 else None
            value = b'{ "id": %d%d }' % (partition, number)
            sending = producer.send(
                "t", value, key, timestamp=TIME_MS + number, headers=HEADERS, partition=partition
            )
            run(sending)
    run(producer.flush())


def quarantine(broker: BrokerThread, place: Path, **more: Any) -> SinkQuarantine:
    spool = Spool(str(place / "spool"), "orders")
    share, least = more.get("share", 0.5), more.get("least", 1000)
    return SinkQuarantine(spool, "shop", broker.bootstrap, NO_SECURITY, share, least)


def failed(offsets: dict[int, list[int]], checks: RowChecks = CHECKS) -> Division:
    division = Division(checks)
    division.moved = {
        partition: dict.fromkeys(numbers, "c") for partition, numbers in offsets.items()
    }
    return division


def manifest_of(options: SinkQuarantine, *files: str) -> Manifest:
    found = write_manifest(options.spool, AT, [Path(file) for file in files])
    assert found is not None
    return found


def test_a_record_whose_row_fails_is_spooled_as_the_topic_has_it(
    broker: BrokerThread, tmp_path: Path
) -> None:
    options = quarantine(broker, tmp_path)
    path = spool_failed(options, CHECKS, failed({1: [7, 30], 0: [0, 39]}))
    found = list(read_manifest(manifest_of(options, path).path))
    assert [record.place for record in found] == ["t-0@0", "t-0@39", "t-1@7", "t-1@30"]
    assert found[2] == (
        "t", 1, 7, TIME_MS + 7, b"k7", b'{ "id": 17 }', HEADERS, "check", "check: c", "", "ab", 1,
    )  # fmt: skip
    assert found[0].key is None


def test_a_task_without_failed_rows_leaves_no_file(broker: BrokerThread, tmp_path: Path) -> None:
    options = quarantine(broker, tmp_path)
    assert spool_failed(options, CHECKS, failed({})) == ""
    assert spool_failed(options, None, None) == ""
    assert spool_failed(None, CHECKS, failed({0: [1]})) == "", "a replay of days publishes nothing"
    assert not (tmp_path / "spool").exists()


def test_records_far_apart_are_read_without_those_between(
    broker: BrokerThread, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_task, "_GAP_OFFSETS_MAX", 3)
    assert list(check_task._ranges([0, 3, 7, 8, 30])) == [(0, 4), (7, 9), (30, 31)]
    assert list(check_task._ranges([])) == []
    options = quarantine(broker, tmp_path)
    path = spool_failed(options, CHECKS, failed({0: [30, 8, 0, 3, 7]}))
    found = list(read_manifest(manifest_of(options, path).path))
    assert [record.offset for record in found] == [0, 3, 7, 8, 30]


def test_a_deleted_record_is_an_error_and_nothing_is_spooled(
    broker: BrokerThread, tmp_path: Path
) -> None:
    options = quarantine(broker, tmp_path)
    with connect(broker.bootstrap) as client:
        run(delete_records(client, {TopicPartition("t", 0): 10}))
    with pytest.raises(DataLossError, match=r"offsets 9 to 9 of t-0 are gone"):
        spool_failed(options, CHECKS, failed({0: [9, 12]}))
    assert [path for path in (tmp_path / "spool").rglob("*") if path.is_file()] == []
    assert spool_failed(options, CHECKS, failed({0: [10, 12]}))


def test_a_compacted_record_is_an_error_that_names_it(
    broker: BrokerThread, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = RangeReader.batches

    def compacted(reader: Any) -> Iterator[pa.RecordBatch]:
        for batch in batches(reader):
            yield batch.filter(pa.array([offset != 5 for offset in batch["offset"].to_pylist()]))

    monkeypatch.setattr(RangeReader, "batches", compacted)
    with pytest.raises(SourceError, match="t-1@5 fails check 'c' and is no longer in the topic"):
        spool_failed(quarantine(broker, tmp_path), CHECKS, failed({1: [4, 5]}))
    assert [path for path in (tmp_path / "spool").rglob("*") if path.is_file()] == []


def replayed(options: SinkQuarantine, *rows: RefusedRecord) -> None:
    """Spool records as the task that reads the retry topic does."""
    place = TopicPartition("shop.t.retry", 0)
    file = RecordFile(options.spool.replayed(AT, place, (0, 9)))
    names = [{"key": key, "value": value} for key, value in HEADERS]
    dictionaries = [{**row._asdict(), "headers": names} for row in rows]
    file.add(pa.RecordBatch.from_pylist(dictionaries, SCHEMA))
    file.finish()


def test_a_replayed_record_that_fails_is_the_next_attempt_wherever_its_topic_begins(
    broker: BrokerThread, tmp_path: Path
) -> None:
    options = quarantine(broker, tmp_path)
    before = RefusedRecord("t", 0, 3, TIME_MS, b"k", b"as it was", HEADERS, "", "", "", "", 2)
    replayed(options, before, before._replace(offset=4), before._replace(topic="u", offset=12))
    with connect(broker.bootstrap) as client:
        run(delete_records(client, {TopicPartition("t", 0): 10}))
    path = spool_failed(options, CHECKS, failed({0: [3, 12]}))
    manifest = manifest_of(options, path)
    found = list(read_manifest(manifest.path))
    expected = before._replace(stage="check", reason="check: c", schema="ab", attempt=3)
    assert found[0] == expected
    assert (found[1].offset, found[1].attempt, found[1].value) == (12, 1, b'{ "id": 012 }')
    assert [(each.topic, each.refused) for each in manifest.checked] == [("t", 1)], (
        "a record that is tried again says nothing of the topic"
    )


def test_a_manifest_has_the_records_of_attempts_that_count_once(
    broker: BrokerThread, tmp_path: Path
) -> None:
    options = quarantine(broker, tmp_path)
    paths = [spool_failed(options, CHECKS, failed({0: [number, 5]})) for number in (1, 2, 3)]
    assert len(set(paths)) == 3
    found = manifest_of(options, *paths[:2])
    assert sorted(record.offset for record in read_manifest(found.path)) == [1, 2, 5]
    (checked,) = found.checked
    assert (checked.refused, checked.first.place) == (3, "t-0@1")
    assert write_manifest(options.spool, AT) is None, "no message names them"


def position(offset: int) -> str:
    ends = {TopicPartition("t", number): offset for number in (0, 1)}
    ends[TopicPartition("shop.t.retry", 0)] = offset
    return json.dumps(Position("b:1", ends).to_json())


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A checkpoint whose batch 3 has offsets 20 to 40 of both partitions."""
    (tmp_path / "check" / "offsets").mkdir(parents=True)
    for batch, offset in ((2, 20), (3, 40)):
        text = f"v1\n{{}}\n{position(offset)}"
        (tmp_path / "check" / "offsets" / str(batch)).write_text(text)
    return tmp_path / "check"


@pytest.mark.parametrize(("count", "too_many"), [(20, False), (21, True)])
def test_too_many_rows_that_fail_end_the_query(
    broker: BrokerThread, tmp_path: Path, checkpoint: Path, count: int, too_many: bool
) -> None:
    """The share is that of the records in the batch, not of the rows behind a where."""
    options = quarantine(broker, tmp_path, least=40)
    path = spool_failed(options, CHECKS, failed({1: list(range(19, 19 + count))}))
    checked = CheckedRows((Path(path),), count, str(checkpoint))
    batch = QuarantinedBatch(options, "q", 3)
    if not too_many:
        assert batch.collect({"run"}, checked)
        return
    text = rf"{count} of the last 40 records of topic t \(52.5%\), .* is t-1@19: check: c\. Nothing"
    with pytest.raises(TooManyRefusedError, match=text) as raised:
        batch.collect({"run"}, checked)
    assert "valueSchema" not in str(raised.value)


@pytest.mark.parametrize("since", ["unchanged", "made again", "deleted"])
def test_topic_made_again_since_the_batch_was_planned_ends_the_query(
    broker: BrokerThread, tmp_path: Path, checkpoint: Path, since: str
) -> None:
    """The records read again would be others than those whose rows failed."""
    options = quarantine(broker, tmp_path)
    with connect(broker.bootstrap) as client:
        planned = run(client.metadata(["t"])).topics["t"].topic_id
        ends = {TopicPartition("t", number): 40 for number in (0, 1)}
        position = Position("b:1", ends, ids={"t": text_of_id(planned)})
        text = f"v1\n{{}}\n{json.dumps(position.to_json())}"
        (checkpoint / "offsets" / "3").write_text(text)
        path = spool_failed(options, CHECKS, failed({1: [20]}))
        if since != "unchanged":
            run(delete_topic(client, "t"))
        if since == "made again":
            broker.create_topics("t", partitions=2)
            append(client, 40)
            path = spool_failed(options, CHECKS, failed({1: [20]}))
    checked = CheckedRows((Path(path),), 1, str(checkpoint))
    batch = QuarantinedBatch(options, "q", 3)
    if since != "unchanged":
        with pytest.raises(DataLossError, match="t was deleted since batch 3 was planned"):
            batch.collect({"run"}, checked)
    else:
        assert batch.collect({"run"}, checked)


def test_refused_values_and_failed_rows_count_together(
    broker: BrokerThread, tmp_path: Path, checkpoint: Path
) -> None:
    options = quarantine(broker, tmp_path, least=40)
    planned = (Planned(0, 20, 40), Planned(1, 20, 40))
    range_ = RangeSpool(options.spool, AT, TopicPartition("t", 0), (20, 40), "ab", planned)
    rows: list[dict[str, Any]] = [
        {
            "topic": "t", "partition": 0, "offset": offset, "timestamp": 0, "key": None,
            "value": b"x", "headers": [], "stage": "decode", "reason": "no", "field": "",
            "schema": "ab", "attempt": 1,
        }
        for offset in range(20, 31)
    ]  # fmt: skip
    range_.add(pa.RecordBatch.from_pylist(rows, SCHEMA))
    range_.finish(20)
    for count, share in ((9, None), (10, "21 of the last 40")):
        path = spool_failed(options, CHECKS, failed({1: list(range(20, 20 + count))}))
        checked = CheckedRows((Path(path),), count, str(checkpoint))
        batch = QuarantinedBatch(options, "q", 3)
        if share is None:
            assert batch.collect({"run"}, checked)
        else:
            with pytest.raises(TooManyRefusedError, match=share):
                batch.collect({"run"}, checked)
