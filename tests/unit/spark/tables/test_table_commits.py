"""Batches and tables: each batch once, whoever commits, and whenever what is killed."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.spark.tables.attempts import Attempt
from headrace.spark.tables.errors import Conflict, TableError
from headrace.spark.tables.files import FileWriter
from headrace.spark.tables.marker import Marker, is_written
from headrace.spark.tables.table import Table, commit, open_table
from tests.support.spark.tables import (
    FORMATS,
    Prepared,
    Run,
    offsets,
    parquet_files,
    read,
    rows,
)

every_format = pytest.mark.parametrize("kind", FORMATS)


@every_format
def test_batches_are_in_the_table(tmp_path: Path, kind: str) -> None:
    run = Run(tmp_path, kind)
    assert run.batch(0, 0, 100)
    assert run.batch(1, 100, 50)
    assert offsets(run.path, kind) == list(range(150))


@every_format
def test_a_batch_that_is_repeated_writes_nothing_and_leaves_no_files(
    tmp_path: Path, kind: str
) -> None:
    run = Run(tmp_path, kind)
    run.batch(0, 0, 100)
    files = parquet_files(tmp_path)
    assert not run.batch(0, 0, 100)
    assert offsets(run.path, kind) == list(range(100))
    assert parquet_files(tmp_path) == files


@every_format
def test_another_batch_of_the_same_number_is_one_error(tmp_path: Path, kind: str) -> None:
    Run(tmp_path, kind).batch(3, 0, 100)
    other = Run(tmp_path, kind, checkpoint="other")
    for number in (3, 0):
        with pytest.raises(TableError, match=f"plans another batch {number}"):
            other.batch(number, 0, 90)
    assert offsets(other.path, kind) == list(range(100))


@every_format
def test_another_querys_checkpoint_that_is_ahead_of_the_table_is_one_error(
    tmp_path: Path, kind: str
) -> None:
    run = Run(tmp_path, kind)
    run.batch(3, 0, 100)
    other = Run(tmp_path, kind, checkpoint="other")
    with pytest.raises(TableError, match="plans another batch 9"):
        other.batch(9, 100, 10)
    assert offsets(run.path, kind) == list(range(100))
    run.batch(4, 100, 10)
    assert offsets(run.path, kind) == list(range(110))


def test_a_marker_of_a_release_that_noted_no_query_is_taken(tmp_path: Path) -> None:
    old = Marker.of_json("orders", '{"batch":3,"digest":7,"ends":["e"]}')
    assert old == Marker("orders", 3, 7, ends=("e",))
    assert not is_written(old, Marker("orders", 4, 8, query=9), lambda marker: marker.ends)


@every_format
def test_files_of_an_attempt_that_died_are_swept_by_the_next_commit(
    tmp_path: Path, kind: str
) -> None:
    run = Run(tmp_path, kind)
    run.batch(0, 0, 10)
    run.plan(1, 20)
    dead = run.tasks(1, rows(10, 10))
    location = run.table.location if kind != "iceberg" else _location(run)
    assert (location / dead.files[0].path).exists()
    run.batch(1, 10, 10)
    assert not (location / dead.files[0].path).exists()
    assert offsets(run.path, kind) == list(range(20))


@every_format
def test_killed_after_the_commit_the_files_stay_when_the_batch_is_repeated(
    tmp_path: Path, kind: str
) -> None:
    run = Run(tmp_path, kind)
    run.plan(0, 10)
    prepared = run.tasks(0, rows(0, 10))
    table = run.table
    table.reload()
    table.append(prepared.files, prepared.marker, overwrite=False)  # and no list is taken away
    assert not run.batch(0, 0, 10)
    run.batch(1, 10, 10)
    assert offsets(run.path, kind) == list(range(20))


@every_format
@pytest.mark.parametrize("killed", [False, True])
def test_of_two_runs_at_once_one_writes_the_batch(tmp_path: Path, kind: str, killed: bool) -> None:
    run = Run(tmp_path, kind)
    run.batch(0, 0, 10)
    run.plan(1, 20)
    first, second = run.tasks(1, rows(10, 10)), run.tasks(1, rows(10, 10))
    racing = Racing(run.table, _KilledBeforeItSweeps(first) if killed else first)
    assert not second.commit(racing.table)
    assert racing.lost
    run.batch(2, 20, 10)
    assert offsets(run.path, kind) == list(range(30))


@every_format
def test_another_writer_meanwhile_is_waited_out(tmp_path: Path, kind: str) -> None:
    run = Run(tmp_path, kind, shared="true")
    run.batch(0, 0, 10)
    beside = Run(tmp_path, kind, checkpoint="beside", pipeline="beside", shared="true")
    beside.plan(0, 30)
    theirs = beside.tasks(0, rows(20, 10))
    run.plan(1, 20)
    ours = run.tasks(1, rows(10, 10))
    racing = Racing(run.table, theirs)
    assert ours.commit(racing.table)
    assert racing.lost == (kind != "delta")  # whose library puts appends one after the other
    assert offsets(run.path, kind) == list(range(30))


@every_format
def test_the_table_of_another_pipeline_is_refused(tmp_path: Path, kind: str) -> None:
    Run(tmp_path, kind).batch(0, 0, 10)
    with pytest.raises(TableError, match="written by pipeline orders"):
        Run(tmp_path, kind, checkpoint="b", pipeline="other").batch(0, 0, 10)


@every_format
def test_a_table_that_has_gone_is_not_made_anew(tmp_path: Path, kind: str) -> None:
    run = Run(tmp_path, kind)
    run.batch(0, 0, 10)
    run.done(0)
    run.path.rename(tmp_path / "away")
    with pytest.raises(TableError, match=r"no table at .* any more"):
        run.batch(1, 10, 10)
    assert not run.path.exists()
    (tmp_path / "away").rename(run.path)
    run.batch(1, 10, 10)
    assert offsets(run.path, kind) == list(range(20))


@every_format
def test_other_columns_are_refused(tmp_path: Path, kind: str) -> None:
    run = Run(tmp_path, kind)
    run.batch(0, 0, 10)
    with pytest.raises(TableError, match=r"offset is .* not string|columns"):
        open_table(run.table, pa.schema([("offset", pa.string())]))


@every_format
def test_a_batch_without_rows_makes_no_commit(tmp_path: Path, kind: str) -> None:
    run = Run(tmp_path, kind)
    run.plan(0, 0)
    run.tasks(0).commit()
    table = run.table
    table.reload()
    assert table.last_marker() is None


class _KilledBeforeItSweeps:
    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared

    def commit(self) -> None:
        table = self._prepared.run.table
        table.reload()
        table.append(self._prepared.files, self._prepared.marker, overwrite=False)


class Racing:
    """Another run that commits between our look at the table and our commit."""

    def __init__(self, table: Table, other: Any) -> None:
        self.table, self.lost = table, False
        append, raced = table.append, False

        def after_the_other(*given: Any, **named: Any) -> None:
            nonlocal raced
            if not raced:
                raced = True
                other.commit()
            try:
                append(*given, **named)
            except (Conflict, FileNotFoundError):
                self.lost = True
                raise

        table.append = after_the_other  # type: ignore[method-assign]


def _location(run: Run) -> Path:
    table = run.table
    table.reload()
    return table.location


@every_format
def test_days_and_texts_of_any_kind_make_partitions(tmp_path: Path, kind: str) -> None:
    run = Run(tmp_path, kind, partitionBy="region,day(timestamp)")
    regions = ["eu", "a/b c%=ü", None, ""] * 25
    columns = [pa.array(range(100)), pa.array(regions), rows(0, 100, days=3).column("timestamp")]
    part = pa.record_batch(columns, names=["offset", "region", "timestamp"])
    table = run.table
    layout = open_table(table, part.schema)
    attempt = Attempt(layout.location, "orders", 0)
    files = FileWriter(layout, attempt).write_all([part])
    assert len(files) == (12 if kind == "iceberg" else 9)  # elsewhere an empty text is null
    assert commit(table, files, [attempt.name], None)
    if kind != "parquet":
        table.reload()
        assert set(table.held()) >= {file.path for file in files}  # what a sweep must not delete
    found = read(run.path, kind)
    by_offset = dict(
        zip(*(found.column(name).to_pylist() for name in ("offset", "region")), strict=True)
    )
    wanted = regions if kind == "iceberg" else [text or None for text in regions]
    assert [by_offset[offset] for offset in range(100)] == wanted
    if kind == "delta":
        assert {str(day) for day in found.column("timestamp_day").to_pylist()} == {
            "1970-01-01", "1970-01-02", "1970-01-03",
        }  # fmt: skip


def test_a_commit_that_was_cut_short_is_completed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, "parquet")
    run.batch(0, 0, 10)
    run.plan(1, 20)
    prepared = run.tasks(1, rows(10, 10))
    table = run.table
    table.reload()
    monkeypatch.setattr(table, "_publish", lambda: None)  # killed when the entry is written
    table.append(prepared.files, prepared.marker, overwrite=False)
    assert offsets(run.path, "parquet") == list(range(10))
    assert not run.batch(1, 10, 10)
    assert offsets(run.path, "parquet") == list(range(20))
