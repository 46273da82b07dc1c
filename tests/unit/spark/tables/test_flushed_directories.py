"""A power failure takes no file that a commit names: files and their directories are flushed."""

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from headrace.spark.durable import flush_directories
from headrace.spark.tables import delta
from headrace.spark.tables.errors import TableError
from headrace.spark.tables.parquet import ParquetDirectory
from headrace.spark.tables.table import Table
from headrace.spark.tables.upserts.changes import merge_changes
from tests.support.spark.tables import FORMATS, Run, read, rows
from tests.support.upserts import changes, upserts


class Flushes:
    """The names in each directory at its last flush, which is what a power failure leaves."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.names: dict[int, set[str]] = {}
        self._fsync = os.fsync
        patched.setattr(os, "fsync", self.fsync)

    def fsync(self, descriptor: int) -> None:
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            self.names[found.st_ino] = set(os.listdir(descriptor))
        self._fsync(descriptor)

    def lost(self, location: Path, paths: Iterable[str]) -> list[str]:
        """The paths, or directories above them, whose names are not on disk."""
        each = {part for path in paths for part in (Path(path), *Path(path).parents)}
        return sorted(
            str(part)
            for part in each - {Path()}
            if part.name not in self.names.get((location / part).parent.stat().st_ino, ())
        )


@pytest.mark.parametrize("kind", FORMATS)
def test_commit_names_only_files_whose_directories_are_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    run = Run(tmp_path, kind, partitionBy="partition,day(timestamp)")
    run.plan(0, 6)
    prepared = run.tasks(0, rows(0, 3, days=3), rows(3, 3, days=2))
    flushes, table, lost = Flushes(monkeypatch), run.table, []
    append = type(table).append

    def noted(self: Table, files: Any, marker: Any, **more: Any) -> None:
        lost.append(flushes.lost(self.location, [file.path for file in files]))
        append(self, files, marker, **more)

    monkeypatch.setattr(type(table), "append", noted)
    assert prepared.commit(table)
    assert len(prepared.files) == 5
    assert lost == [[]]


def test_files_moved_by_a_commit_are_flushed_with_new_partition_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, "parquet", partitionBy="partition,day(timestamp)")
    flushes = Flushes(monkeypatch)
    run.batch(0, 0, 6, days=3)
    visible = [str(path.relative_to(run.path)) for path in run.path.glob("part*/*/*.parquet")]
    assert len(visible) == 6
    assert flushes.lost(run.path, visible) == []


@pytest.mark.parametrize("kind", ["parquet", "iceberg"])
def test_merged_files_are_flushed_with_their_directories_before_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    run = Run(tmp_path, kind, partitionBy="day(timestamp)")
    run.options["mergeEvery"] = "9"
    run.batch(0, 0, 6)
    run.batch(1, 6, 6)
    flushes, table, named = Flushes(monkeypatch), run.table, []
    table.reload()
    if isinstance(table, ParquetDirectory):
        commit = table._commit

        def committed(*, moved: Any, **more: Any) -> None:
            named.append((list(moved), flushes.lost(table.location, moved)))
            commit(moved=moved, **more)

        monkeypatch.setattr(table, "_commit", committed)
    else:
        replace = table._replace  # type: ignore[attr-defined]

        def replaced(merges: Any) -> None:
            paths = [file.path for _, written in merges for file in written]
            named.append((paths, flushes.lost(table.location, paths)))
            replace(merges)

        monkeypatch.setattr(table, "_replace", replaced)
    assert table.merge(1) == 4
    ((paths, lost),) = named
    assert len(paths) == 1
    assert lost == []
    assert read(run.path, kind).num_rows == 12


def test_upsert_names_deleted_keys_only_once_their_directory_is_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, lost = upserts(tmp_path), []
    flushes, merge = Flushes(monkeypatch), merge_changes

    def noted(*given: Any) -> None:
        (file,) = (run.path / "_headrace" / "deleted").iterdir()
        lost.append(flushes.lost(run.path, [str(file.relative_to(run.path))]))
        merge(*given)

    monkeypatch.setattr(delta, "merge_changes", noted)
    run.plan(0, 1)
    assert run.tasks(0, changes(("a", 1, "a"), ("b", 2, None))).commit()
    assert lost == [[]]


def test_each_directory_is_flushed_once_and_none_above_the_location(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("a/b", "a/c"):
        (tmp_path / path).mkdir(parents=True)
    flushed: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: flushed.append(os.fstat(descriptor).st_ino))
    before = len(os.listdir("/proc/self/fd"))
    flush_directories(tmp_path, ["a/b/1", "a/b/2", "a/c/1"])
    wanted = [tmp_path / path for path in (".", "a", "a/b", "a/c")]
    assert sorted(flushed) == sorted(path.stat().st_ino for path in wanted)
    assert len(os.listdir("/proc/self/fd")) == before


def test_directory_that_cannot_be_flushed_leaves_the_batch_out_of_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, "delta")
    run.batch(0, 0, 2)
    run.plan(1, 4)
    prepared = run.tasks(1, rows(2, 2))
    fsync, before = os.fsync, len(os.listdir("/proc/self/fd"))

    def refused(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(5, "Input/output error")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", refused)
    with pytest.raises(TableError, match="Input/output error"):
        prepared.commit()
    assert len(os.listdir("/proc/self/fd")) == before
    monkeypatch.undo()
    assert read(run.path, "delta").num_rows == 2
    assert prepared.commit()
    assert read(run.path, "delta").num_rows == 4
