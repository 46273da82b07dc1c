"""What files' statistics say of their rows: readers leave files out by them."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.spark.tables.errors import TableError
from tests.support.spark.tables import FORMATS, Run, iceberg_table, read

YEAR_55840_US = 1_700_000_000_000_000_000
"""Microseconds that a producer gave for milliseconds."""
YEAR_10000_US, YEAR_0_US = 253_402_300_800_000_000, -62_135_596_800_000_001


def write(run: Run, part: pa.RecordBatch) -> None:
    run.plan(0, part.num_rows)
    assert run.tasks(0, part).commit()


def times(*microseconds: int) -> pa.RecordBatch:
    kind = pa.timestamp("us", "UTC")
    columns = [pa.array(range(len(microseconds))), pa.array(microseconds, kind)]
    return pa.record_batch(columns, names=["offset", "timestamp"])


def statistics(run: Run) -> dict[str, Any]:
    """Of the one file that the first version of a Delta table adds; JSON as its standard has it."""

    def refuse(number: str) -> None:
        raise AssertionError(number)

    lines = (run.path / "_delta_log" / f"{1:020}.json").read_text().splitlines()
    added = next(json.loads(line)["add"] for line in lines if "add" in json.loads(line))
    found: dict[str, Any] = json.loads(added["stats"], parse_constant=refuse)
    return found


def floats(number: float) -> pa.RecordBatch:
    columns = [pa.array([0, 1]), pa.array([1.0, number]), pa.array([1.0, number], pa.float32())]
    return pa.record_batch(columns, names=["offset", "large", "small"])


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_deltas_log_has_no_bounds_beside_a_number_that_is_not_finite(
    tmp_path: Path, number: float
) -> None:
    run = Run(tmp_path, "delta")
    write(run, floats(number))
    assert statistics(run) == {
        "numRecords": 2,
        "nullCount": {"offset": 0, "large": 0, "small": 0},
    }


def test_deltas_log_has_the_bounds_of_finite_numbers(tmp_path: Path) -> None:
    run = Run(tmp_path, "delta")
    write(run, floats(2.5))
    found = statistics(run)
    assert found["minValues"] == {"offset": 0, "large": 1.0, "small": 1.0}
    assert found["maxValues"] == {"offset": 1, "large": 2.5, "small": 2.5}


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("time", [YEAR_55840_US, YEAR_10000_US, YEAR_0_US])
def test_a_time_beyond_the_calendar_is_written_as_any_other(
    tmp_path: Path, kind: str, time: int
) -> None:
    run = Run(tmp_path, kind, mergeEvery=1)
    run.plan(0, 2)
    assert run.tasks(0, times(0, time), times(1)).commit()
    found = read(run.path, kind)
    microseconds = found.column("timestamp").cast(pa.int64()).to_pylist()
    assert sorted(microseconds) == sorted([0, 1, time])
    if kind == "iceberg":
        counts = iceberg_table(run.path).inspect.files().column("record_count").to_pylist()
        assert counts == [3]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("time", [YEAR_10000_US, YEAR_0_US])
def test_a_day_beyond_the_calendar_is_refused_with_its_column(
    tmp_path: Path, kind: str, time: int
) -> None:
    run = Run(tmp_path, kind, partitionBy="day(timestamp)")
    with pytest.raises(TableError, match=r"timestamp_day of some rows .* filter these rows out"):
        write(run, times(0, time))
    run = Run(tmp_path / "within", kind, partitionBy="day(timestamp)")
    write(run, times(YEAR_10000_US - 1, YEAR_0_US + 1))
    assert read(run.path, kind).num_rows == 2


def test_times_of_any_year_are_written_with_four_digits_in_deltas_log(tmp_path: Path) -> None:
    run = Run(tmp_path, "delta")
    write(run, times(YEAR_0_US + 1, YEAR_10000_US - 1))
    found = statistics(run)
    assert found["minValues"]["timestamp"] == "0001-01-01T00:00:00.000000Z"
    assert found["maxValues"]["timestamp"] == "9999-12-31T23:59:59.999999Z"
