"""Commits at their edges: files that are gone, who waits for whom, what is flushed, how often."""

import os
import stat
import threading
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from headrace.spark.tables import parquet, table
from headrace.spark.tables.attempts import locked
from headrace.spark.tables.delta import Delta
from headrace.spark.tables.errors import Conflict, TableError
from headrace.spark.tables.iceberg import Iceberg
from headrace.spark.tables.parquet import ENTRIES_KEPT, ParquetDirectory
from headrace.spark.tables.table import COMMIT_TRIES, Table, _has_committed, commit
from tests.support.spark.tables import FORMATS, SCHEMA, Run, offsets, read, rows


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was waited, which takes no time."""
    waits: list[float] = []
    monkeypatch.setattr(table, "time", SimpleNamespace(sleep=waits.append))
    return waits


# --- of every format ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FORMATS)
def test_a_batch_one_of_whose_files_is_gone_is_not_committed_without_it(
    tmp_path: Path, kind: str, slept: list[float]
) -> None:
    run = Run(tmp_path, kind)
    run.batch(0, 0, 4)
    run.plan(1, 8)
    prepared = run.tasks(1, rows(4, 2), rows(6, 2))
    opened = run.table
    opened.reload()
    (opened.location / prepared.files[1].path).unlink()
    with pytest.raises(TableError, match="10 times others came first or took files"):
        prepared.commit()
    assert offsets(run.path, kind) == list(range(4))
    assert len(slept) == COMMIT_TRIES


@pytest.mark.parametrize("kind", FORMATS)
def test_what_a_table_held_is_replaced_by_what_is_written_over_it(
    tmp_path: Path, kind: str
) -> None:
    run = Run(tmp_path, kind)
    run.batch(0, 0, 10)
    run.plan(1, 14)
    prepared = run.tasks(1, rows(10, 4))
    assert commit(run.table, prepared.files, prepared.attempts, prepared.marker, overwrite=True)
    assert offsets(run.path, kind) == [10, 11, 12, 13]
    run.batch(2, 14, 2)
    assert offsets(run.path, kind) == [10, 11, 12, 13, 14, 15]


class Busy(Table):
    """One to which others are always faster."""

    def __init__(self) -> None:
        super().__init__(cast("Any", SimpleNamespace(merge_every=0, upsert=None, pipeline="p")))
        self.location = Path("/nowhere")
        self.tries = 0

    def exists(self) -> bool:
        return True

    def open(self, schema: pa.Schema) -> Any:
        raise NotImplementedError

    def reload(self) -> None:
        """Nothing is new."""

    def last_marker(self) -> None:
        """Nothing was written."""

    def columns(self) -> list[str]:
        return []

    def owners(self) -> list[str]:
        return []

    def append(self, *_: object, **__: object) -> None:
        self.tries += 1
        raise Conflict("another")

    def held(self) -> list[str]:
        return []

    def merge(self, batch: int) -> int:
        return 0


def test_who_comes_second_each_time_waits_longer_and_gives_up_after_seconds(
    slept: list[float],
) -> None:
    busy = Busy()
    with pytest.raises(TableError, match="10 times others came first"):
        commit(busy, [], [], None, overwrite=True)
    assert busy.tries == COMMIT_TRIES
    assert slept == sorted(slept)
    assert 1 < sum(slept) < 5


def test_a_checkpoint_has_committed_where_a_batch_has(tmp_path: Path) -> None:
    assert not _has_committed(tmp_path)
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / ".0.crc").write_text("left of a batch that was begun")
    assert not _has_committed(tmp_path)
    (tmp_path / "commits" / "0").write_text("v1")
    assert _has_committed(tmp_path)


# --- directories of Parquet -----------------------------------------------------------------------


def log_of(run: Run) -> Path:
    return run.path / "_headrace" / "log"


def entries(run: Run) -> list[int]:
    return sorted(int(entry.stem) for entry in log_of(run).glob("*.json"))


def test_a_commit_waits_for_the_one_that_is_being_made(tmp_path: Path) -> None:
    run = Run(tmp_path, "parquet")
    run.batch(0, 0, 4)
    run.plan(1, 8)
    prepared = run.tasks(1, rows(4, 4))
    opened = run.table
    opened.reload()
    appended = threading.Thread(
        target=lambda: opened.append(prepared.files, prepared.marker, overwrite=False)
    )
    with locked(log_of(run)):
        appended.start()
        appended.join(0.2)
        assert appended.is_alive()
        assert entries(run) == [1, 2]
    appended.join(10)
    assert entries(run) == [1, 2, 3]


def test_the_last_entries_are_kept_for_who_reads_them_now_and_no_more(tmp_path: Path) -> None:
    run = Run(tmp_path, "parquet")
    for batch in range(ENTRIES_KEPT + 5):
        run.batch(batch, 2 * batch, 2)
        assert len(entries(run)) == min(batch + 2, ENTRIES_KEPT)
    assert entries(run)[-1] == ENTRIES_KEPT + 6
    assert offsets(run.path, "parquet") == list(range(2 * (ENTRIES_KEPT + 5)))


def test_a_commit_is_on_the_disk_when_it_is_said_and_so_are_the_files_it_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, "parquet", partitionBy="day(timestamp)")
    run.plan(0, 4)
    prepared = run.tasks(0, rows(0, 4, days=2))
    synced: list[tuple[int, int]] = []
    sync = os.fsync

    def noted(descriptor: int) -> None:
        found = os.fstat(descriptor)
        synced.append((found.st_ino, found.st_size if stat.S_ISREG(found.st_mode) else -1))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    assert prepared.commit()
    entry = max(log_of(run).glob("*.json"))
    days = sorted(run.path.glob("timestamp_day=*"))
    assert len(days) == 2
    decision = synced.index((entry.stat().st_ino, entry.stat().st_size))
    assert synced[:decision], "first the directories of the staged files"
    assert all(size == -1 for _, size in synced[:decision])
    after = synced[decision + 1 :]
    assert (log_of(run).stat().st_ino, -1) in after[:3], "then the decision"
    assert {(day.stat().st_ino, -1) for day in days} < set(after[3:]), "then the moved files"


def test_an_entry_that_finds_no_room_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, "parquet")
    run.batch(0, 0, 4)
    run.plan(1, 8)
    prepared = run.tasks(1, rows(4, 4))

    def no_room(_: int) -> None:
        raise OSError(28, "no room")

    monkeypatch.setattr(os, "fsync", no_room)
    with pytest.raises(TableError, match="no space is left"):
        prepared.commit()
    assert list(log_of(run).glob("*.tmp")) == []
    monkeypatch.undo()
    assert prepared.commit()
    assert offsets(run.path, "parquet") == list(range(8))


def test_files_that_wait_go_with_the_table_that_is_written_over(tmp_path: Path) -> None:
    run = Run(tmp_path, "parquet", mergeEvery=9)
    run.batch(0, 0, 10)
    run.plan(1, 20)
    prepared = run.tasks(1, rows(10, 10))
    commit(run.table, prepared.files, prepared.attempts, prepared.marker, overwrite=True)
    assert list((run.path / "_headrace").rglob("*.staged")) == []


def test_a_file_of_half_the_bytes_is_not_small(tmp_path: Path) -> None:
    run = Run(tmp_path, "parquet", mergeEvery=9, fileBytesMax=1 << 16)
    directory = cast("ParquetDirectory", run.table)
    assert isinstance(directory, parquet.ParquetDirectory)
    assert [directory._is_small(size) for size in ((1 << 15) - 1, 1 << 15)] == [True, False]


# --- Delta ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("bytes_max", "merged"), [(10, 1), (11, 2), (20, 2), (21, 3)])
def test_a_merge_of_delta_ends_with_the_partition_that_reaches_its_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bytes_max: int, merged: int
) -> None:
    delta = cast("Any", Run(tmp_path, "delta").table)
    assert isinstance(delta, Delta)
    object.__setattr__(delta.options, "merge_bytes", bytes_max)
    compacted: list[Any] = []

    def compact(**named: Any) -> dict[str, int]:
        compacted.append(named["partition_filters"])
        return {"numFilesRemoved": 2}

    opened = SimpleNamespace(
        optimize=SimpleNamespace(compact=compact), vacuum=lambda dry_run: compacted.append(dry_run)
    )
    monkeypatch.setattr(Delta, "_opened", opened)
    small = [({"day": str(day)}, 10) for day in range(3)]
    monkeypatch.setattr(Delta, "_small_files", lambda _: small)
    assert delta.merge(0) == 2 * merged
    assert compacted == [[("day", "=", str(day))] for day in range(merged)] + [False]


def test_a_key_of_two_columns_is_the_same_where_both_are(tmp_path: Path) -> None:
    run = Run(tmp_path, "delta", upsertBy="key,partition")

    def record(key: bytes, partition: int, value: bytes | None, at: int) -> pa.RecordBatch:
        columns = [
            [key],
            [value],
            pa.array([partition], pa.int32()),
            [at],
            pa.array([0], SCHEMA[4].type),
        ]
        return pa.record_batch(columns, schema=SCHEMA)

    run.plan(0, 2)
    run.tasks(0, record(b"a", 0, b"1", 0), record(b"b", 1, b"2", 1)).commit()
    run.plan(1, 4)
    run.tasks(1, record(b"a", 1, b"3", 2), record(b"b", 1, b"4", 3)).commit()
    found = read(run.path, "delta").select(["key", "partition", "value"]).to_pylist()
    assert sorted(tuple(row.values()) for row in found) == [
        (b"a", 0, b"1"), (b"a", 1, b"3"), (b"b", 1, b"4"),
    ]  # fmt: skip


# --- Iceberg --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "deletes", "merged"), [(99, [], 2), (100, [], 0), (99, ["some"], 0)]
)
def test_of_iceberg_small_files_without_deleted_rows_are_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, deletes: list[str], merged: int
) -> None:
    run = Run(tmp_path, "iceberg")
    iceberg = cast("Any", run.table)
    assert isinstance(iceberg, Iceberg)
    object.__setattr__(iceberg.options, "file_bytes", 200)
    iceberg.location.mkdir()
    file = SimpleNamespace(file_size_in_bytes=size, partition=(), file_path="f", spec_id=0)
    tasks = [SimpleNamespace(delete_files=deletes, file=file)] * 2
    opened = SimpleNamespace(
        scan=lambda: SimpleNamespace(plan_files=lambda: tasks),
        spec=lambda: SimpleNamespace(spec_id=0),
    )
    monkeypatch.setattr(Iceberg, "_opened", opened)
    monkeypatch.setattr(Iceberg, "_rewritten", lambda *_: [])
    locks: list[bool] = []

    def replaced(*_: Any) -> None:
        held = threading.Event()

        def enter() -> None:
            with suppress(OSError), locked(iceberg.location / "_headrace"):
                held.set()

        other = threading.Thread(target=enter)
        other.start()
        locks.append(not held.wait(0.2))
        waiting.append(other)

    waiting: list[threading.Thread] = []
    monkeypatch.setattr(Iceberg, "_replace", replaced)
    assert iceberg.merge(0) == merged
    for other in waiting:
        other.join(10)
    assert locks == [True] * bool(merged), "others do not sweep meanwhile"
