"""A Parquet directory's small files are merged before anybody sees them: no reader is disturbed."""

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from headrace.spark.tables.attempts import Attempt
from headrace.spark.tables.files import FileWriter
from headrace.spark.tables.options import parse_table_options
from headrace.spark.tables.sink import table_of
from headrace.spark.tables.table import Table, commit, open_table
from tests.support.spark.tables import SCHEMA, Run, offsets, parquet_files, read, rows

KIND = "parquet"


def seen(run: Run) -> list[int]:
    """The offsets that readers see."""
    return offsets(run.path, KIND) if parquet_files(run.path) else []


def staged(run: Run) -> list[Path]:
    return list(run.path.rglob("*.staged"))


@pytest.mark.parametrize(("partition_by", "files"), [("", 1), ("day(timestamp)", 2)])
def test_small_files_are_merged_every_so_many_batches_and_seen_only_then(
    tmp_path: Path, partition_by: str, files: int
) -> None:
    run = Run(tmp_path, KIND, mergeEvery=3, partitionBy=partition_by, sortBy="key")
    for number in range(2):
        run.batch(number, number * 10, 10, days=2)
        assert not parquet_files(run.path)
    run.batch(2, 20, 10, days=2)
    assert len(parquet_files(run.path)) == files
    assert seen(run) == list(range(30))
    assert not staged(run)
    assert not run.batch(2, 20, 10, days=2)
    for number in range(3, 6):
        run.batch(number, number * 10, 10, days=2)
    assert len(parquet_files(run.path)) == 2 * files
    assert seen(run) == list(range(60))
    for file in parquet_files(run.path):
        keys = read(run.path / file, KIND).column("key").to_pylist()
        assert keys == sorted(keys)


def test_every_batch_is_one_file_of_many_tasks_with_a_merge_each_batch(tmp_path: Path) -> None:
    run = Run(tmp_path, KIND, mergeEvery=1)
    run.batch(0, 0, 10)
    run.batch(1, 10, 10)
    assert len(parquet_files(run.path)) == 2
    assert seen(run) == list(range(20))


def test_at_every_step_of_a_merge_readers_see_all_of_it_or_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, KIND, mergeEvery=2)
    for number in range(3):
        run.batch(number, number * 10, 10)
    looks: list[list[int]] = []

    def looking(step: Callable[..., Any]) -> Callable[..., Any]:
        def looked(*given: Any, **named: Any) -> Any:
            looks.append(seen(run))
            done = step(*given, **named)
            looks.append(seen(run))
            return done

        return looked

    for name in ("replace", "unlink"):
        monkeypatch.setattr(Path, name, looking(getattr(Path, name)))
    run.batch(3, 30, 10)
    assert len(looks) > 6
    assert all(look in (list(range(20)), list(range(40))) for look in looks)
    assert looks[-1] == list(range(40))


def test_large_files_do_not_wait(tmp_path: Path) -> None:
    run = Run(tmp_path, KIND, mergeEvery=3, fileBytesMax=1 << 16, compression="none")
    run.batch(0, 0, 6000)  # two files of more than half the bytes
    assert seen(run) == list(range(6000))


def test_what_is_beyond_the_bound_of_a_merge_is_seen_as_it_is(tmp_path: Path) -> None:
    run = Run(tmp_path, KIND, mergeEvery=2, partitionBy="day(timestamp)")
    run.batch(0, 0, 6, days=3)
    run.plan(1, 12)
    prepared = run.tasks(1, rows(6, 6, days=3))
    table = run.table
    object.__setattr__(table.options, "merge_bytes", 1)
    assert prepared.commit(table)
    found = [Path(file).parent.name for file in parquet_files(run.path)]
    assert sorted(found.count(f"timestamp_day=1970-01-0{day}") for day in (1, 2, 3)) == [1, 3, 3]
    assert seen(run) == list(range(12))


@pytest.mark.parametrize("by", ["stream", "job"])
def test_a_write_that_does_not_merge_shows_what_waits(tmp_path: Path, by: str) -> None:
    run = Run(tmp_path, KIND, mergeEvery=9)
    run.batch(0, 0, 10)
    assert seen(run) == []
    if by == "stream":
        again = Run(tmp_path, KIND)
        again.plan(1, 10)
        again.tasks(1).commit()
    else:
        options = {"tableFormat": KIND, "path": str(run.path), "shared": "true"}
        commit(table_of(parse_table_options(options, streaming=False)), [], [], None)
    assert seen(run) == list(range(10))
    assert not staged(run)


def test_a_table_that_is_replaced_does_not_get_what_waited(tmp_path: Path) -> None:
    run = Run(tmp_path, KIND, mergeEvery=9)
    run.batch(0, 0, 10)
    run.plan(1, 20)
    prepared = run.tasks(1, rows(10, 10))
    commit(run.table, prepared.files, prepared.attempts, prepared.marker, overwrite=True)
    assert seen(run) == list(range(10, 20))
    run.options["mergeEvery"] = "1"
    run.batch(2, 20, 10)
    assert seen(run) == list(range(10, 30))


def test_files_that_wait_are_not_swept(tmp_path: Path) -> None:
    run = Run(tmp_path, KIND, mergeEvery=3)
    run.plan(0, 10)
    prepared = run.tasks(0, rows(0, 10))
    table = run.table
    table.reload()
    table.append(prepared.files, prepared.marker, overwrite=False)  # killed: its lists stay
    for number in (1, 2):
        run.batch(number, number * 10, 10)
    assert seen(run) == list(range(30))


def test_another_commit_during_a_merge_puts_it_off(tmp_path: Path) -> None:
    run = Run(tmp_path, KIND, mergeEvery=2, shared="true")
    run.batch(0, 0, 10)
    beside = Run(tmp_path, KIND, checkpoint="b", pipeline="b", mergeEvery=9, shared="true")
    run.plan(1, 20)
    table = _interrupted(run.table, lambda: beside.batch(0, 100, 10))
    assert run.tasks(1, rows(10, 10)).commit(table)
    assert seen(run) == []
    for number in (2, 3):
        run.batch(number, number * 10, 10)
    assert seen(run) == [*range(40), *range(100, 110)]
    assert not staged(run)


def test_a_merge_whose_files_were_swept_loses_nothing(tmp_path: Path) -> None:
    run = Run(tmp_path, KIND, mergeEvery=2)
    run.batch(0, 0, 10)
    run.plan(1, 20)

    again = Run(tmp_path, KIND, mergeEvery=9)  # another run that repeats the batch, and sweeps
    table = _interrupted(run.table, lambda: again.batch(1, 10, 10))
    assert run.tasks(1, rows(10, 10)).commit(table)
    for number in (2, 3):
        run.batch(number, number * 10, 10)
    assert seen(run) == list(range(40))


def test_a_merge_that_the_disk_refuses_is_done_in_the_next_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run(tmp_path, KIND, mergeEvery=2)
    run.batch(0, 0, 10)
    run.plan(1, 20)
    table: Any = run.table

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(table, "_rewritten", full)
    assert run.tasks(1, rows(10, 10)).commit(table)
    assert "cleanup after the batch failed" in caplog.text
    for number in (2, 3):
        run.batch(number, number * 10, 10)
    assert seen(run) == list(range(40))
    assert len(parquet_files(run.path)) == 1


@pytest.mark.parametrize("step", [4, 8, 11, 13, 15, 17])
def test_killed_at_any_step_of_a_merge_each_row_is_there_once(tmp_path: Path, step: int) -> None:
    run = Run(tmp_path, KIND, mergeEvery=2)
    run.batch(0, 0, 10)
    script = (
        "import sys; from pathlib import Path; from tests.spark.tables.killed import main; "
        "main(Path(sys.argv[1]), 'parquet', int(sys.argv[2]), mergeEvery=2)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path), str(step)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sys.path))},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 9, f"it has fewer steps: {done.stderr}"
    run.batch(1, 10, 10)
    for number in (2, 3):
        run.batch(number, number * 10, 10)
    assert seen(run) == list(range(40))
    assert not staged(run)
    assert not list(run.path.rglob("_headrace/attempts/*"))


def test_a_log_without_waiting_files_is_one_of_a_release_before(tmp_path: Path) -> None:
    run = Run(tmp_path, KIND)
    layout = open_table(run.table, SCHEMA)
    (entry,) = (run.path / "_headrace" / "log").glob("*.json")
    assert "waiting" not in entry.read_text()
    run.options["mergeEvery"] = "1"
    run.plan(0, 10)
    attempt = Attempt(layout.location, "orders", 0)
    files = FileWriter(layout, attempt).write_all([rows(0, 10)])
    run_table = run.table
    assert commit(run_table, files, [attempt.name], run.tasks(0).marker)
    assert seen(run) == list(range(10))


def _interrupted(table: Table, between: Callable[[], object]) -> Table:
    """A table in whose merge something happens when the files are written and nothing is said."""
    changed: Any = table
    rewritten, done = changed._rewritten, False

    def then(*given: Any) -> Any:
        nonlocal done
        files = rewritten(*given)
        if not done:
            done = True
            with suppress(Exception):
                between()
        return files

    changed._rewritten = then
    return table
