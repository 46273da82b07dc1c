"""Upserts: changes of a key are ordered as in Spark, and offsets within a partition."""

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.spark.errors import OptionError
from tests.support.spark.tables import Run, write
from tests.support.upserts import changes, records, rows_of, upserts

NAN = float("nan")


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
