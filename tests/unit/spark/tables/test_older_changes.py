"""Upserts: a change that is older than the table's row or its deletion is not applied."""

import itertools
import logging
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction

from headrace.spark.errors import OptionError
from headrace.spark.tables import attempts, delta
from headrace.spark.tables.errors import TableError
from headrace.spark.tables.upserts.deleted_keys import path_of
from tests.support.tables import Run, read, write

NAN = float("nan")
Change = tuple[Any, ...]


def changes(
    *rows: Change,
    key: pa.DataType = pa.string(),  # noqa: B008 - types are constants
    order: pa.DataType = pa.int64(),  # noqa: B008
) -> pa.RecordBatch:
    """Changes as (key, order, value); a value of None deletes."""
    columns = [pa.array([row[place] for row in rows], kind) for place, kind in
               enumerate((key, order, pa.string()))]  # fmt: skip
    return pa.record_batch(columns, names=["id", "version", "value"])


def records(*rows: Change) -> pa.RecordBatch:
    """Records as (key, partition, offset, timestamp in seconds, value)."""
    kinds = (pa.string(), pa.int32(), pa.int64(), pa.timestamp("us", "UTC"), pa.string())
    names = ["id", "partition", "offset", "timestamp", "value"]
    values = [[row[place] for row in rows] for place in range(5)]
    values[3] = [seconds * 1_000_000 for seconds in values[3]]
    return pa.record_batch(
        [pa.array(each, kind) for each, kind in zip(values, kinds, strict=True)], names=names
    )


def upserts(place: Path, **more: Any) -> Run:
    return Run(place, "delta", **{"upsertBy": "id", "upsertOrder": "version", **more})


def rows_of(run: Run, *columns: str) -> list[Change]:
    found = read(run.path, "delta").select([*columns] or ["id", "version", "value"])
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=str)


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


def test_deletions_by_another_order_do_not_count(tmp_path: Path) -> None:
    run = upserts(tmp_path)
    write(run, 0, changes(("a", 5, None)))
    other = upserts(tmp_path, upsertOrder="value", deleteWhen="version")
    write(other, 1, changes(("a", 4, "old")))
    assert rows_of(run) == [("a", 4, "old")]


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


# --- Order and equality as in Spark -------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "rising"),
    [
        (pa.int64(), [None, -1, 0, 2]),
        (pa.float64(), [None, -1.0, 0.0, 1.5, float("inf"), NAN]),
        (pa.float32(), [None, -1.0, 0.0, 1.5, float("inf"), NAN]),
        (pa.string(), [None, "", "Z", "a", "é", "\U00020bb7"]),
        (pa.binary(), [None, b"", b"a", b"\xff"]),
        (pa.bool_(), [None, False, True]),
        (pa.timestamp("us", "UTC"), [None, -5, 0, 5]),
        (pa.date32(), [None, -5, 0, 5]),
    ],
    ids=str,
)
@pytest.mark.parametrize("batches", [1, 2])
def test_orders_compare_as_in_spark(
    tmp_path: Path, kind: pa.DataType, rising: list[Any], batches: int
) -> None:
    """In one batch, and between a batch and the table or its deleted keys."""
    for place, (low, high) in enumerate(itertools.pairwise(rising)):
        run = upserts(tmp_path / str(place))
        (tmp_path / str(place)).mkdir()
        newer = [("a", high, "high"), ("b", high, None), ("c", low, "low"), ("d", low, "low")]
        older = [("a", low, "low"), ("b", low, "low"), ("c", high, "high"), ("d", high, None)]
        parts = [changes(*each, order=kind) for each in (newer, older)]
        for batch, each in enumerate([parts] if batches == 1 else [[part] for part in parts]):
            write(run, batch, *each)
        found = [(row[0], row[2]) for row in rows_of(run)]
        assert found == [("a", "high"), ("c", "high")], (low, high)


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()], ids=str)
@pytest.mark.parametrize(("one", "other"), [(0.0, -0.0), (-0.0, 0.0), (NAN, -NAN), (NAN, NAN)])
def test_equal_floats_are_equal_as_keys_and_orders(
    tmp_path: Path, kind: pa.DataType, one: float, other: float
) -> None:
    run = upserts(tmp_path)
    both = [(one, 1, "x"), (other, 2, "y")]
    write(run, 0, changes(*both, (7.0, 1, "seven"), key=kind))
    assert sorted(row[2] for row in rows_of(run)) == ["seven", "y"]
    write(run, 1, changes((one, 5, None), (other, 4, "z"), key=kind))
    write(run, 2, changes((other, 3, "old"), key=kind))
    assert [row[2] for row in rows_of(run)] == ["seven"]
    (tmp_path / "order").mkdir()
    run = upserts(tmp_path / "order")
    write(run, 0, changes(("a", one, "first"), ("a", other, "second"), order=kind))
    assert [row[2] for row in rows_of(run)] == ["second"]
    write(run, 1, changes(("a", one, "third"), order=kind))
    assert [row[2] for row in rows_of(run)] == ["third"]
    write(run, 2, changes(("a", other, None), order=kind))
    write(run, 3, changes(("a", one, "fourth"), order=kind))
    assert [row[2] for row in rows_of(run)] == ["fourth"]


def test_an_order_of_structs_is_refused(tmp_path: Path) -> None:
    kinds = [pa.string(), pa.struct([("n", pa.int64())]), pa.string()]
    values: list[list[Any]] = [["a"], [{"n": 1}], ["x"]]
    rows = pa.record_batch(
        [pa.array(each, kind) for each, kind in zip(values, kinds, strict=True)],
        names=["id", "version", "value"],
    )
    with pytest.raises(OptionError, match="upsertOrder: version is struct"):
        write(upserts(tmp_path), 0, rows)


# --- Offsets ------------------------------------------------------------------------------------


def of_source(place: Path) -> Run:
    return Run(place, "delta", upsertBy="id")


@pytest.mark.parametrize("batches", [1, 2])
def test_a_key_that_moves_to_a_new_partition_is_updated(tmp_path: Path, batches: int) -> None:
    """Offsets of the new partition are lower: records' timestamps order the changes."""
    run = of_source(tmp_path)
    parts = [
        records(("a", 0, 1000, 10, "old"), ("b", 0, 1001, 11, "b")),
        records(("a", 3, 0, 20, "new"), ("b", 3, 1, 21, None)),
    ]
    for batch, each in enumerate([parts] if batches == 1 else [[part] for part in parts]):
        write(run, batch, *each)
    assert rows_of(run, "id", "value") == [("a", "new")]
    write(run, batches, records(("a", 0, 1002, 12, "late"), ("b", 0, 1003, 13, "late")))
    assert rows_of(run, "id", "value") == [("a", "new")]


@pytest.mark.parametrize("batches", [1, 2])
def test_offsets_order_changes_of_a_partition_whatever_their_time(
    tmp_path: Path, batches: int
) -> None:
    run = of_source(tmp_path)
    parts = [records(("a", 0, 7, 50, "seven")), records(("a", 0, 8, 40, "eight"))]
    for batch, each in enumerate([parts] if batches == 1 else [[part] for part in parts]):
        write(run, batch, *each)
    assert rows_of(run, "id", "value") == [("a", "eight")]
    write(run, batches, records(("a", 0, 7, 50, "seven")))
    assert rows_of(run, "id", "value") == [("a", "eight")]


def test_offsets_do_not_compare_between_topics(tmp_path: Path) -> None:
    run = of_source(tmp_path)
    for batch, (topic, offset, seconds, value) in enumerate(
        [("x", 1000, 10, "old"), ("y", 5, 20, "new"), ("x", 1001, 15, "late")]
    ):
        part = records(("a", 0, offset, seconds, value))
        write(run, batch, part.append_column("topic", pa.array([topic])))
    assert rows_of(run, "id", "value") == [("a", "new")]


def test_without_timestamps_the_later_batch_wins_between_partitions(tmp_path: Path) -> None:
    run = of_source(tmp_path)
    columns = ["id", "partition", "offset", "value"]
    write(run, 0, records(("a", 0, 1000, 0, "old")).select(columns))
    write(run, 1, records(("a", 3, 0, 0, "new")).select(columns))
    assert rows_of(run, "id", "value") == [("a", "new")]
