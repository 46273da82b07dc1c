"""Counts of a batch, from the sink to the process that runs the query."""

from pathlib import Path

from headrace.spark.batch_counts import take_counts, write_counts


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
