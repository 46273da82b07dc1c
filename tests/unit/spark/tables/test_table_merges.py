"""Small files become large ones, and the rows stay what they were."""

from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from headrace.spark.tables import attempts
from headrace.spark.tables.errors import TableError
from tests.support.spark.tables import Run, offsets, parquet_files, read, rows

merging = pytest.mark.parametrize("kind", ["delta", "iceberg"])


@merging
@pytest.mark.parametrize("partition_by", ["", "partition,day(timestamp)"])
def test_small_files_are_merged_every_so_many_batches(
    tmp_path: Path, kind: str, partition_by: str
) -> None:
    run = Run(tmp_path, kind, mergeEvery=3, partitionBy=partition_by)
    for number in range(2):
        run.batch(number, number * 10, 10)
    assert len(held(run)) == 4
    run.batch(2, 20, 10)
    assert len(held(run)) == 1
    assert offsets(run.path, kind) == list(range(30))
    assert not run.batch(2, 20, 10)
    run.batch(3, 30, 10)
    assert offsets(run.path, kind) == list(range(40))


@merging
def test_a_merge_ends_at_its_bound(tmp_path: Path, kind: str) -> None:
    run = Run(tmp_path, kind, partitionBy="offset", mergeEvery=2)
    run.batch(0, 0, 4)
    run.plan(1, 8)
    prepared = run.tasks(1, rows(0, 4))
    table = run.table
    object.__setattr__(table.options, "merge_bytes", 1)
    assert prepared.commit(table)
    assert len(held(run)) == 7
    assert offsets(run.path, kind) == [0, 0, 1, 1, 2, 2, 3, 3]


@merging
def test_a_merge_that_fails_does_not_fail_the_batch(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, kind, mergeEvery=1)

    def refuse(batch: int) -> int:
        raise TableError(f"not now, in batch {batch}")

    table = run.table
    monkeypatch.setattr(table, "merge", refuse)
    run.plan(0, 10)
    assert run.tasks(0, rows(0, 10)).commit(table)
    assert offsets(run.path, kind) == list(range(10))


@pytest.mark.parametrize("kind", ["parquet", "iceberg"])
def test_another_run_of_the_batch_sweeps_no_files_of_a_merge_that_is_being_committed(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, kind, mergeEvery=2)
    run.batch(0, 0, 10)
    run.plan(1, 20)
    table: Any = run.table
    again = Run(tmp_path, kind, mergeEvery=9).tasks(1, rows(10, 10))
    last_step = "_replace" if kind == "iceberg" else "_reload_unchanged"
    work = getattr(table, last_step)
    sweeping, swept, sweep = Thread(target=again.commit), Event(), attempts.sweep
    merging = False

    def sweep_seen(*given: Any) -> Any:
        if merging:
            swept.set()
        return sweep(*given)

    monkeypatch.setattr(attempts, "sweep", sweep_seen)

    def amid(*given: Any) -> None:
        if merging:
            sweeping.start()
            looks.append(swept.wait(2))
        work(*given)

    looks: list[bool] = []
    prepared = run.tasks(1, rows(10, 10))
    merge = table.merge

    def merge_meanwhile(batch: int) -> Any:
        nonlocal merging
        merging = True
        return merge(batch)

    table.merge = merge_meanwhile
    setattr(table, last_step, amid)
    assert prepared.commit(table)
    sweeping.join(60)
    assert looks == [False]
    assert swept.is_set()
    assert offsets(run.path, kind) == list(range(20))


def test_merged_files_are_sorted_as_others_are(tmp_path: Path) -> None:
    run = Run(tmp_path, "iceberg", mergeEvery=2, sortBy="key")
    run.batch(0, 0, 50)
    before = parquet_files(tmp_path)
    run.batch(1, 50, 50)
    assert before <= parquet_files(tmp_path)  # snapshots before still have theirs
    keys = read(run.path, "iceberg").column("key").to_pylist()
    assert keys == sorted(keys)


def held(run: Run) -> list[str]:
    table = run.table
    table.reload()
    paths = set(table.held())
    return sorted(path for path in paths if "%" not in path)
