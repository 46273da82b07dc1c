"""Spooled ranges and a batch's manifest: each refused record once, of one run, durable."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from headrace.arrow.read.columns import TYPES
from headrace.arrow.typed.typed_rows import Mode, TypedValues
from headrace.model.nouns import TopicPartition
from headrace.spark.errors import SourceError
from headrace.spark.quarantine import range_task
from headrace.spark.quarantine.manifest import (
    manifest_path,
    read_manifest,
    run_of_manifest,
    write_manifest,
)
from headrace.spark.quarantine.range_task import QuarantinedRange, TaskQuarantine
from headrace.spark.quarantine.sink_batch import announce
from headrace.spark.quarantine.spool import BatchRun, Planned, Spool

AT = BatchRun("q", 4, "run-1")
PLANNED = (Planned(0, 0, 20), Planned(1, 0, 20))


class Context:
    """The local properties of a Spark task."""

    def __init__(self, at: BatchRun = AT) -> None:
        self.at: BatchRun | None = at

    def get(self) -> "Context":
        return self

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802 - Spark's name
        if self.at is None:
            return None
        query, batch, run = self.at
        return {
            "sql.streaming.queryId": query, "streaming.sql.batchId": str(batch),
            "spark.jobGroup.id": run,
        }[name]  # fmt: skip


@pytest.fixture(autouse=True)
def context(monkeypatch: pytest.MonkeyPatch) -> Context:
    monkeypatch.setenv("HEADRACE_NUMBA", "0")
    context = Context()
    monkeypatch.setattr(range_task, "TaskContext", context)
    return context


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    made = Spool(str(tmp_path / "spool"), "orders")
    made.announce_sink("q")
    return made


def records(values: list[bytes | None], first: int = 0) -> pa.RecordBatch:
    """Records from an offset on, with a key, a time and two headers."""
    count = len(values)
    headers = [{"key": "h", "value": b"\xff"}, {"key": "h", "value": None}]
    return pa.RecordBatch.from_arrays(
        [
            pa.array(values, pa.binary()),
            pa.array(range(first, first + count), pa.int64()),
            pa.array([b"k", None] * count, pa.binary())[:count],
            pa.array([1_700_000_000_123_000] * count, TYPES["timestamp"]),
            pa.array([headers] * count, TYPES["headers"]),
        ],
        names=["value", "offset", "key", "timestamp", "headers"],
    )


def task(
    spool: Spool, begin: int, end: int, *, partition: int = 0, ddl: str = "id BIGINT", **more: Any
) -> QuarantinedRange:
    quarantine = TaskQuarantine(spool, more.get("schema", "aa"), more.get("planned", PLANNED))
    typed, place = TypedValues(ddl, Mode.QUARANTINE), TopicPartition("t-1", partition)
    return QuarantinedRange(typed, ("offset",), quarantine, place, (begin, end))


GOOD, BAD = b'{"id":1}', b'{"id":"x"}'


def files(spool: Spool) -> list[str]:
    found = spool.query("q").rglob("*.arrow")
    return sorted(str(path.relative_to(spool.query("q"))) for path in found)


def test_a_task_spools_what_it_refuses_before_it_yields_its_last_rows(spool: Spool) -> None:
    rows = task(spool, 0, 4).rows(iter([records([BAD, GOOD]), records([GOOD, BAD], 2)]))
    assert next(rows).column("_offset").to_pylist() == [1]
    assert files(spool) == []
    assert next(rows).column("_offset").to_pylist() == [2]
    assert files(spool) == ["4/run-1/t-1-0/0-4.aa.arrow"]
    assert list(rows) == []


def test_a_task_without_refused_records_leaves_no_file(spool: Spool) -> None:
    rows = list(task(spool, 0, 2).rows(iter([records([GOOD, None])])))
    assert [batch.column("id").to_pylist() for batch in rows] == [[1, None]]
    assert files(spool) == []
    assert [path.name for path in spool.query("q").iterdir()] == ["sink"]
    assert write_manifest(spool, AT) is None


def test_a_task_that_reads_nothing_yields_nothing(spool: Spool) -> None:
    assert list(task(spool, 0, 2).rows(iter([]))) == []


def test_a_task_that_fails_leaves_no_file(spool: Spool) -> None:
    def batches() -> Any:
        yield records([BAD])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(task(spool, 0, 4).rows(batches()))
    assert [path for path in spool.query("q").rglob("*") if path.is_file()] == [
        spool.query("q") / "sink"
    ]


def test_a_refused_record_is_spooled_byte_for_byte_with_its_reason(spool: Spool) -> None:
    list(task(spool, 7, 9, partition=1).rows(iter([records([GOOD, BAD], 7)])))
    manifest = write_manifest(spool, AT)
    assert manifest is not None
    (record,) = read_manifest(manifest.path)
    assert record.place == "t-1-1@8"
    assert record == (
        "t-1", 1, 8, 1_700_000_000_123, None, BAD, [("h", b"\xff"), ("h", None)], "decode",
        'id: expected an integer, got "x" (byte 6)', "id", "aa", 1,
    )  # fmt: skip
    assert run_of_manifest(manifest.path) == "run-1"
    assert manifest.path == manifest_path(spool, "q", 4, manifest.digest)


def test_a_retried_task_and_a_second_scan_spool_each_record_once(spool: Spool) -> None:
    """Rule 3: one quarantine record a refused record and flow."""
    for begin, end, schema in (
        (0, 6, "aa"),
        (0, 6, "aa"),
        (0, 3, "aa"),
        (3, 6, "aa"),
        (0, 6, "bb"),
    ):
        found: list[bytes | None] = [
            BAD if offset in (2, 4) else GOOD for offset in range(begin, end)
        ]
        list(task(spool, begin, end, schema=schema).rows(iter([records(found, begin)])))
    assert len(files(spool)) == 4
    manifest = write_manifest(spool, AT)
    assert manifest is not None
    assert [record.offset for record in read_manifest(manifest.path)] == [2, 4]


def test_another_runs_files_are_not_in_the_manifest(spool: Spool, context: Context) -> None:
    context.at = BatchRun("q", 4, "run-0")
    list(task(spool, 0, 1).rows(iter([records([BAD])])))
    context.at = BatchRun("q", 3, "run-1")
    list(task(spool, 0, 1).rows(iter([records([BAD])])))
    assert write_manifest(spool, AT) is None
    context.at = AT
    list(task(spool, 1, 2).rows(iter([records([BAD], 1)])))
    manifest = write_manifest(spool, AT)
    assert manifest is not None
    assert [record.offset for record in read_manifest(manifest.path)] == [1]


def test_manifests_of_two_runs_have_two_names(spool: Spool, context: Context) -> None:
    digests = set()
    for run in ("run-1", "run-2"):
        context.at = AT._replace(run=run)
        list(task(spool, 0, 1).rows(iter([records([BAD])])))
        manifest = write_manifest(spool, context.at)
        assert manifest is not None
        assert 0 < manifest.digest < 1 << 63
        digests.add(manifest.digest)
        again = write_manifest(spool, context.at)
        assert again is not None
        assert again.digest == manifest.digest
    assert len(digests) == 2


def test_a_topics_records_are_counted_exactly_where_one_is_refused(spool: Spool) -> None:
    # Partition 0: 4 of the offsets 0 to 9 are records. Partition 1: nothing refused, 20 offsets.
    list(task(spool, 0, 10).rows(iter([records([BAD, GOOD, BAD, None])])))
    (refusals,) = write_manifest(spool, AT).topics  # type: ignore[union-attr]
    assert (refusals.topic, refusals.schema) == ("t-1", "aa")
    assert (refusals.read, refusals.refused) == (4 + 10 + 20, 2)
    list(task(spool, 0, 20, partition=1).rows(iter([records([BAD])])))
    (refusals,) = write_manifest(spool, AT).topics  # type: ignore[union-attr]
    assert (refusals.read, refusals.refused) == (4 + 10 + 1, 3)
    assert refusals.first.place == "t-1-0@0"


def test_a_batch_after_one_that_was_not_published_fails_in_each_task(
    tmp_path: Path, context: Context
) -> None:
    spool = Spool(str(tmp_path), "orders")
    for at in (AT, AT._replace(run="run-2"), AT._replace(batch=3)):
        context.at = at
        assert len(list(task(spool, 0, 1).rows(iter([records([BAD, GOOD])])))) == 1
    context.at = AT._replace(batch=5)
    spool.announce_sink("another query")
    with pytest.raises(SourceError, match="not published the records that batch 3 refused: write"):
        task(spool, 0, 1)
    spool.announce_sink("q")
    assert len(list(task(spool, 0, 1).rows(iter([records([BAD])])))) == 1


def test_a_sink_added_later_does_not_delete_unpublished_records(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path / "spool"), "orders")
    list(task(spool, 0, 1).rows(iter([records([BAD])])))
    options: Any = SimpleNamespace(spool=spool)
    commits = tmp_path / "check/commits"
    commits.mkdir(parents=True)
    (commits / "3").touch()
    # Batch 4 was not committed: it is repeated, and published then.
    announce(options, "q", str(tmp_path / "check"))
    (spool.query("q") / "sink").unlink()
    (commits / "4").touch()
    with pytest.raises(SourceError, match=r"batch 4 refused: .* a new checkpointLocation"):
        announce(options, "q", (tmp_path / "check").as_uri())
    assert files(spool)


def test_a_read_that_is_no_stream_is_refused(spool: Spool, context: Context) -> None:
    context.at = None
    with pytest.raises(SourceError, match="only streaming queries have a quarantine"):
        task(spool, 0, 1)


def test_a_spool_that_cannot_be_written_is_one_error(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path), "orders")
    spool.announce_sink("q")
    (spool.query("q") / "4").write_text("in the way")
    with pytest.raises(SourceError, match=r"cannot be spooled at .*t-1-0: File exists"):
        list(task(spool, 0, 1).rows(iter([records([BAD])])))


def test_a_damaged_spool_file_is_an_error_and_not_skipped(spool: Spool) -> None:
    list(task(spool, 0, 1).rows(iter([records([BAD])])))
    (path,) = spool.query("q").rglob("*.arrow")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(pa.ArrowInvalid):
        write_manifest(spool, AT)
    assert [path.name for path in spool.query("q").iterdir() if path.is_file()] == ["sink"]
