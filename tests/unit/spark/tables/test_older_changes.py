"""Upserts: a change that is older than the table's row or its deletion is not applied."""

import logging
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Schema, Transaction

from headrace.spark.tables import attempts, delta
from headrace.spark.tables.errors import TableError
from headrace.spark.tables.upserts.deleted_keys import path_of
from tests.support.spark.tables import Run, write
from tests.support.upserts import Change, changes, rows_of, upserts


def test_an_older_change_in_a_later_batch_is_not_applied(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = upserts(tmp_path)
    write(run, 0, changes(("a", 5, "new"), ("b", 1, "b")))
    with caplog.at_level(logging.WARNING):
        assert write(run, 1, changes(("a", 4, "old"), ("b", 2, "b2")))
    assert rows_of(run) == [("a", 5, "new"), ("b", 2, "b2")]
    assert "1 changes are older by version than the table's rows" in caplog.text


def test_an_equal_order_in_a_later_batch_is_applied(tmp_path: Path) -> None:
    run = upserts(tmp_path)
    write(run, 0, changes(("a", 5, "first")))
    write(run, 1, changes(("a", 5, "second")))
    assert rows_of(run) == [("a", 5, "second")]


def test_an_older_delete_does_not_delete(tmp_path: Path) -> None:
    run = upserts(tmp_path)
    write(run, 0, changes(("a", 5, "new")))
    write(run, 1, changes(("a", 4, None)))
    assert rows_of(run) == [("a", 5, "new")]


@pytest.mark.parametrize("there", [True, False])
def test_an_older_change_does_not_bring_back_a_deleted_key(tmp_path: Path, there: bool) -> None:
    run = upserts(tmp_path)
    write(run, 0, changes(("other", 0, "o"), *([("a", 1, "first")] if there else [])))
    write(run, 1, changes(("a", 5, None)))
    write(run, 2, changes(("a", 4, "old"), ("other", 1, "p")))
    assert rows_of(run) == [("other", 1, "p")]
    write(run, 3, changes(("a", 6, "newer")))
    assert rows_of(run) == [("a", 6, "newer"), ("other", 1, "p")]
    write(run, 4, changes(("a", 5, "between")))
    assert rows_of(run) == [("a", 6, "newer"), ("other", 1, "p")]


def test_a_batch_without_an_effect_is_in_the_table_once(tmp_path: Path) -> None:
    run = upserts(tmp_path)
    write(run, 0, changes(("a", 5, "new")))
    assert write(run, 1, changes(("a", 4, "old")))
    assert write(run, 2, changes(("b", 4, None)))
    assert not write(run, 2, changes(("b", 4, None)))
    marker = run.table.last_marker()
    assert marker is not None
    assert marker.batch == 2


def test_deletions_of_many_batches_are_remembered_and_one_file_is_left(tmp_path: Path) -> None:
    run = upserts(tmp_path)
    for batch in range(5):
        write(run, batch, changes((f"k{batch}", 10, None), ("other", batch, str(batch))))
    write(run, 5, *[changes((f"k{batch}", 9, "old")) for batch in range(5)])
    assert rows_of(run) == [("other", 4, "4")]
    stored = [*(run.path / "_headrace" / "deleted").iterdir()]
    number = DeltaTable(run.path).transaction_version("headrace-deleted-keys")
    assert [str(path.relative_to(run.path)) for path in stored] == [path_of(number or 0)]


def test_a_deletion_is_remembered_by_a_batch_with_an_older_change_and_a_deletion(
    tmp_path: Path,
) -> None:
    run = upserts(tmp_path)
    write(run, 0, changes(("a", 5, None)))
    write(run, 1, changes(("a", 4, "old"), ("b", 5, None)))
    write(run, 2, changes(("a", 4, "old"), ("b", 4, "old"), ("c", 1, "c")))
    assert rows_of(run) == [("c", 1, "c")]


def test_keys_of_two_columns_are_deleted_separately(tmp_path: Path) -> None:
    def two(*rows: Change) -> pa.RecordBatch:
        names = ["id", "region", "version", "value"]
        return pa.record_batch(
            [pa.array([row[place] for row in rows], kind) for place, kind in
             enumerate((pa.string(), pa.int32(), pa.int64(), pa.string()))], names=names
        )  # fmt: skip

    run = upserts(tmp_path, upsertBy="id,region")
    write(run, 0, two(("a", 1, 5, None), ("b", 2, 5, None)))
    write(run, 1, two(("a", 1, 4, "old"), ("a", 2, 4, "x"), ("b", 1, 4, "y")))
    assert rows_of(run, "id", "region", "value") == [("a", 2, "x"), ("b", 1, "y")]
    write(run, 2, two(("c", 1, 5, None)))
    write(run, 3, two(("a", 1, 4, "old"), ("b", 2, 4, "old"), ("c", 1, 4, "old")))
    assert rows_of(run, "id", "region", "value") == [("a", 2, "x"), ("b", 1, "y")]


def test_a_deletion_is_forgotten_after_its_retention(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = upserts(tmp_path, deleteRetentionMs=60_000)
    now = 1_800_000_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    write(run, 0, changes(("a", 5, None)))
    now += 59
    write(run, 1, changes(("a", 4, "old")))
    assert rows_of(run) == []
    now += 2
    write(run, 2, changes(("a", 4, "old")))
    assert rows_of(run) == [("a", 4, "old")]


def test_a_commit_that_fails_leaves_the_deleted_keys_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = upserts(tmp_path)
    write(run, 0, changes(("a", 5, None)))

    def refuse(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(delta, "merge_changes", refuse)
        with pytest.raises(TableError, match="Input/output error"):
            write(run, 1, changes(("b", 5, None)))
    write(run, 1, changes(("c", 5, None)))
    write(run, 2, changes(("a", 4, "old"), ("b", 4, "b"), ("c", 4, "old")))
    assert rows_of(run) == [("b", 4, "b")]
    assert len([*(run.path / "_headrace" / "deleted").iterdir()]) == 1


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("point", ["write_deleted_keys", "merge_changes", "sweep"])
def test_a_driver_killed_at_any_point_of_a_batch_applies_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, when: str
) -> None:
    owner = attempts if point == "sweep" else delta
    work = getattr(owner, point)

    def killed(*given: Any, **named: Any) -> None:
        if when == "after":
            work(*given, **named)
        raise KeyboardInterrupt

    run = upserts(tmp_path)
    batches = [
        changes(("a", 5, "a5"), ("b", 5, "b5"), ("c", 5, None)),
        changes(("a", 6, None), ("b", 4, "b4"), ("c", 4, "c4"), ("d", 1, "d1")),
        changes(("a", 5, "a5"), ("c", 6, "c6"), ("d", 2, None), ("b", 6, "b6")),
        changes(("d", 1, "d1"), ("a", 7, "a7"), ("b", 6, "b6"), ("e", 1, None)),
    ]
    for number, part in enumerate(batches):
        with monkeypatch.context() as patched:
            patched.setattr(owner, point, killed)
            with suppress(KeyboardInterrupt):
                write(run, number, part)
        write(run, number, part)
    assert rows_of(run) == [("a", 7, "a7"), ("b", 6, "b6"), ("c", 6, "c6")]
    assert len([*(run.path / "_headrace" / "deleted").iterdir()]) == 1
    assert not [*(run.path / "_headrace" / "attempts").iterdir()]
    write(run, 4, changes(("d", 1, "d1"), ("e", 0, "e0"), ("a", 6, "a6")))
    assert rows_of(run) == [("a", 7, "a7"), ("b", 6, "b6"), ("c", 6, "c6")]


def test_a_deletion_by_another_pipeline_meanwhile_is_not_missed(tmp_path: Path) -> None:
    from tests.unit.spark.tables.test_table_commits import Racing

    run = upserts(tmp_path, shared=True)
    write(run, 0, changes(("other", 0, "o")))
    other = Run(tmp_path, "delta", "other", upsertBy="id", upsertOrder="version", shared=True)
    other.options["pipeline"] = "other"
    other.plan(0, 0)
    run.plan(1, 1)
    racing = Racing(run.table, other.tasks(0, changes(("a", 5, None))))
    assert run.tasks(1, changes(("a", 4, "old"))).commit(racing.table)
    assert racing.lost
    assert rows_of(run) == [("other", 0, "o")]


def test_files_of_deleted_keys_survive_a_vacuum(tmp_path: Path) -> None:
    run = upserts(tmp_path)
    write(run, 0, changes(("a", 5, None)))
    DeltaTable(run.path).vacuum(0, dry_run=False, enforce_retention_duration=False)
    write(run, 1, changes(("a", 4, "old")))
    assert rows_of(run) == []


def test_a_missing_file_of_deleted_keys_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = upserts(tmp_path)
    write(run, 0, changes(("a", 5, None)))
    for path in (run.path / "_headrace" / "deleted").iterdir():
        path.unlink()
    assert write(run, 1, changes(("a", 4, "old")))
    assert "older changes may bring back deleted keys" in caplog.text
    assert rows_of(run) == [("a", 4, "old")]


def test_a_damaged_file_of_deleted_keys_is_one_error(tmp_path: Path) -> None:
    run = upserts(tmp_path)
    write(run, 0, changes(("a", 5, None)))
    for path in (run.path / "_headrace" / "deleted").iterdir():
        path.write_bytes(b"PAR1, then nothing")
    with pytest.raises(TableError, match="delete the file to continue"):
        write(run, 1, changes(("a", 4, "old")))
    assert rows_of(run) == []


def test_columns_that_take_no_nulls_are_upserted(tmp_path: Path) -> None:
    part = changes(("a", 5, None), ("b", 1, "b"))
    strict = pa.schema([part.schema.field(0).with_nullable(False), *list(part.schema)[1:]])
    DeltaTable.create(str(tmp_path / "table"), Schema.from_arrow(strict))
    run = upserts(tmp_path)
    for batch, rows in enumerate([part, changes(("a", 4, "old"), ("c", 1, None))]):
        write(run, batch, pa.record_batch(rows.columns, schema=strict))
    write(run, 2, pa.record_batch(changes(("a", 4, "old"), ("c", 0, "c")).columns, schema=strict))
    assert rows_of(run) == [("b", 1, "b")]


def test_deletions_by_another_order_do_not_count(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = upserts(tmp_path)
    write(run, 0, changes(("a", 5, None)))
    other = upserts(tmp_path, upsertOrder="value", deleteWhen="version")
    write(other, 1, changes(("a", 4, "old")))
    assert rows_of(run) == [("a", 4, "old")]
    assert "upsertBy or upsertOrder was changed" in caplog.text


def test_a_table_of_the_version_before_continues(tmp_path: Path) -> None:
    """It has no deleted keys; its rows have their order."""
    run = upserts(tmp_path)
    write(run, 0, changes(("a", 5, "new")))
    table = DeltaTable(run.path)
    assert table.transaction_version("headrace-deleted-keys") == 0
    write(run, 1, changes(("b", 5, None)))
    # The version before commits a batch without the transaction, and without a file.
    before = CommitProperties(
        app_transactions=[
            Transaction("headrace:orders", 2),
            Transaction("headrace:orders:digest", 7),
            Transaction("headrace:orders:query", 0),
        ]
    )
    row = pa.table({"id": ["b"], "version": [6], "value": ["x"]})
    (
        DeltaTable(run.path)
        .merge(row, "t.id = s.id", "s", "t", commit_properties=before)
        .when_not_matched_insert_all()
        .execute()
    )
    write(run, 3, changes(("b", 5, "old"), ("a", 4, "old")))
    assert rows_of(run) == [("a", 5, "new"), ("b", 6, "x")]
