"""Counts of a batch, from the sink to the process that runs the query."""

from pathlib import Path

from headrace.spark.batch_counts import (
    take_counts,
    take_task_counts,
    write_counts,
    write_task_counts,
)


def test_counts_are_read_once_and_by_batch(tmp_path: Path) -> None:
    directory = tmp_path / "of" / "flow"
    write_counts(directory, 3, {"t": 1})
    write_counts(directory, 4, {"t": 2})
    write_counts(directory, 4, {"t": 5})
    assert take_counts(directory, 4) == {"t": 5}, "a repeated batch replaces its counts"
    assert take_counts(directory, 4) is None
    assert take_counts(directory, 3) == {"t": 1}
    assert list(directory.iterdir()) == []


def test_counts_that_cannot_be_written_or_read_end_no_batch(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    write_counts(tmp_path / "file", 0, {"t": 1})
    assert take_counts(tmp_path / "file", 0) is None
    (tmp_path / "1.json").write_text('{"t"')
    assert take_counts(tmp_path, 1) is None


def test_counts_of_tasks_are_read_once_with_those_of_earlier_batches_deleted(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "of" / "flow"
    assert take_task_counts(directory, 3) == []
    for batch, task in ((2, "t-0.5"), (3, "t-0.7"), (3, "t.x-1.0"), (4, "t-0.9")):
        write_task_counts(directory, batch, task, {task: batch})
    write_task_counts(directory, 3, "t-0.7", {"t-0.7": 8})
    (directory / ".3.t-0.7.json.cut").write_text("{")
    (directory / "3.cut.json").write_text("{")
    assert take_task_counts(directory, 3) == [{"t-0.7": 8}, {"t.x-1.0": 3}], "repeated: replaced"
    assert take_task_counts(directory, 4) == [{"t-0.9": 4}]
    assert take_task_counts(directory, 9) == []
    assert [file.name for file in directory.iterdir()] == []
