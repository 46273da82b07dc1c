"""Differences of two versions of a Delta table (rule 22 of pipelines)."""

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from headrace.pipeline.diffs.compare import compare
from headrace.pipeline.diffs.table_diff import ColumnTypes, DiffError, TableDiff
from headrace.spark.tables.delta_parts.snapshot import snapshot_of
from tests.support.spark.delta_rows import (
    AT,
    NAN,
    OTHER_NAN,
    SCHEMA,
    changes,
    diff,
    row,
    table,
)

ROWS = [row(offset) for offset in range(40)]
KEYS = [{}, {"keys": ()}, {"on": ("_offset",)}]
"""By position, as multisets, by a declared key."""


@pytest.mark.parametrize("settings", KEYS)
def test_table_does_not_differ_from_itself(tmp_path: Path, settings: Any) -> None:
    path = table(tmp_path / "t", ROWS)
    found = diff(path, path, **settings)
    assert not found.differs
    assert (found.rows_before, found.rows_after, found.same) == (40, 40, 40)
    assert (found.partitions, found.partitions_equal) == (2, 2)
    assert [column.changed for column in found.columns] == [0] * len(found.columns)
    assert len(found.columns) == {0: 14, 1: 15}.get(len(settings.get("on", ())), 0) or not found.key


@pytest.mark.parametrize("settings", KEYS)
def test_other_files_and_order_of_the_same_rows_do_not_differ(
    tmp_path: Path, settings: Any
) -> None:
    before = table(tmp_path / "a", ROWS)
    after = table(tmp_path / "b", ROWS[31:], ROWS[:7][::-1], ROWS[7:31])
    assert not diff(before, after, **settings).differs


@pytest.mark.parametrize("settings", KEYS)
def test_every_nan_is_equal_and_so_are_both_zeros(tmp_path: Path, settings: Any) -> None:
    def rows(nan: float, zero: float) -> list[dict[str, Any]]:
        values = [nan, zero]
        return [
            row(at, amount=x, ratio=x, list=[x], inner={"x": x, "y": []}, map=[("k", x)])
            for at, x in enumerate(values)
        ] + ([row(9, name="only to compare each row")] if nan is OTHER_NAN else [row(9)])

    before, after = (
        table(tmp_path / "a", rows(NAN, 0.0)),
        table(tmp_path / "b", rows(OTHER_NAN, -0.0)),
    )
    found = diff(before, after, **settings)
    assert found.partitions_equal == 1
    assert found.added + found.gone + found.changed == (1 if found.key else 2)


CHANGED = {
    "flag": False,
    "amount": 4 / 7 + 2**-52,
    "ratio": 0.25,
    "price": Decimal("0.05"),
    "wide": Decimal("1234567890123456789012345678.0000000002"),
    "name": "n4 ",
    "raw": b"\x04\x01",
    "at": AT.replace(microsecond=1),
    "local": AT.replace(tzinfo=None, microsecond=1),
    "born": date(2026, 11, 25),
    "inner": {"x": 4 / 7, "y": [4, 0]},
    "list": [4 / 7, 0.0, 0.0],
    "map": [("a", 4 / 7), ("b", 0.0)],
}


@pytest.mark.parametrize(
    ("column", "nulled"),
    [*((column, False) for column in CHANGED), ("amount", True), ("map", True)],
)
def test_changed_value_counts_one_row_and_one_column(
    tmp_path: Path, column: str, nulled: bool
) -> None:
    at, value = 14, None if nulled else CHANGED[column]
    before = table(tmp_path / "a", ROWS)
    after = table(
        tmp_path / "b", [row(n, **({column: value} if n == at else {})) for n in range(40)]
    )
    found = diff(before, after)
    assert changes(found) == {column: 1}
    assert (found.changed, found.added, found.gone, found.same) == (1, 0, 0, 39)
    example = next(each for each in found.columns if each.changed).examples[0]
    assert example.key == ("0", "14")
    assert (example.after is None) == nulled
    as_multiset = diff(before, after, keys=())
    assert (as_multiset.added, as_multiset.gone, as_multiset.changed) == (1, 1, 0)
    assert not diff(before, after, ignore=frozenset({column})).differs


def test_added_gone_and_changed_rows_are_counted_apart(tmp_path: Path) -> None:
    before = table(tmp_path / "a", ROWS[:30])
    after = table(
        tmp_path / "b", [row(n, **({"price": Decimal(1)} if n < 15 else {})) for n in range(10, 36)]
    )
    found = diff(before, after)
    assert (found.rows_before, found.rows_after) == (30, 26)
    assert (found.added, found.gone, found.changed, found.same) == (6, 10, 5, 15)
    assert found.added_examples == (("0", "30"), ("0", "32"), ("0", "34"))
    assert found.gone_examples == (("0", "0"), ("0", "2"), ("0", "4"))
    assert changes(found) == {"price": 5}


def test_rows_in_one_version_only_are_no_changed_values(tmp_path: Path) -> None:
    found = diff(table(tmp_path / "a", ROWS[:3]), table(tmp_path / "b", ROWS[3:6]))
    assert (found.added, found.gone, found.changed) == (3, 3, 0)
    assert changes(found) == {}


def test_duplicates_are_counted(tmp_path: Path) -> None:
    same = [row(2), row(2), row(2), row(5)]
    before, after = table(tmp_path / "a", same), table(tmp_path / "b", same[1:])
    assert not diff(before, before).differs
    found = diff(before, after)
    assert found.key == ()
    assert (found.added, found.gone) == (0, 1)
    assert (diff(after, before).added, diff(after, before).gone) == (1, 0)


def test_a_declared_key_that_identifies_no_row_is_refused(tmp_path: Path) -> None:
    before, after = table(tmp_path / "a", ROWS), table(tmp_path / "b", ROWS[1:])
    with pytest.raises(DiffError, match="flag does not identify a row: several rows have flag="):
        diff(before, after, on=("flag",))


def test_duplicates_of_a_key_in_the_new_version_only_are_found(tmp_path: Path) -> None:
    before, after = table(tmp_path / "a", ROWS), table(tmp_path / "b", [*ROWS, row(1, name="x")])
    assert diff(before, after).key == ()
    assert diff(before, after).added == 1


def test_null_is_a_value_of_a_key(tmp_path: Path) -> None:
    before = table(tmp_path / "a", [row(1, name=None), row(2), row(5)])
    after = table(tmp_path / "b", [row(1, name=None, price=Decimal(7)), row(2), row(5)])
    found = diff(before, after, on=("name",))
    assert (found.changed, changes(found)) == (1, {"price": 1})


def test_a_row_that_moves_to_another_partition_is_changed(tmp_path: Path) -> None:
    before = table(tmp_path / "a", ROWS)
    after = table(tmp_path / "b", [row(n, **({"day": "d9"} if n == 3 else {})) for n in range(40)])
    found = diff(before, after)
    assert (found.changed, found.added, found.gone) == (1, 0, 0)
    assert changes(found) == {"day": 1}


NUMBERS = pa.schema(
    [("_partition", pa.int32()), ("_offset", pa.int64()), ("big", pa.int64()), ("x", pa.float64()),
     ("price", pa.decimal128(38, 2))]
)  # fmt: skip


def numbers(path: Path, *rows: tuple[int | None, float | None, str | None]) -> Path:
    return table(
        path,
        [
            {"_partition": 0, "_offset": at, "big": big, "x": x, "price": price and Decimal(price)}
            for at, (big, x, price) in enumerate(rows)
        ],
        schema=NUMBERS,
    )


def test_largest_difference_of_numbers(tmp_path: Path) -> None:
    most = "9" * 36 + ".99"
    before = numbers(
        tmp_path / "a",
        (-(2**63), 1.5, "12.34"),
        (1, NAN, None),
        (1, 3.0, most),
        (1, 0.0, "-" + most),
    )
    after = numbers(
        tmp_path / "b",
        (2**63 - 1, 1.0, "12.36"),
        (2, 5.0, "1"),
        (1, float("inf"), most),
        (1, 0.0, most),
    )
    columns = {column.name: column for column in diff(before, after).columns}
    assert {name: column.changed for name, column in columns.items()} == {
        "big": 2,
        "x": 3,
        "price": 3,
    }
    assert columns["big"].delta_max == pytest.approx(2.0**64)
    assert columns["x"].delta_max == 0.5
    assert columns["x"].examples[1].before == "nan"
    assert columns["price"].examples[0].before == "12.34"
    assert columns["price"].examples[1].before is None


def test_tolerance_applies_to_finite_numbers_of_its_column(tmp_path: Path) -> None:
    before = numbers(tmp_path / "a", (1, 1.0, "1.10"), (1, NAN, "1.10"), (5, None, None))
    after = numbers(tmp_path / "b", (2, 1.25, "1.00"), (1, 1.0, "0.99"), (5, 1.0, "0.00"))
    within = diff(before, after, tolerances={"x": 0.25, "price": 0.1})
    assert changes(within) == {"big": 1, "x": 2, "price": 2}
    below = diff(before, after, tolerances={"x": 0.24, "price": 0.09})
    assert changes(below) == {"big": 1, "x": 3, "price": 3}
    finer = diff(before, after, tolerances={"price": 0.099})
    assert changes(finer) == {"big": 1, "x": 3, "price": 3}, "not rounded to cents"
    assert changes(diff(before, after, tolerances={"big": 1})) == {"x": 3, "price": 3}


def test_columns_of_other_types_are_named_and_not_compared(tmp_path: Path) -> None:
    schema = pa.schema([("_partition", pa.int32()), ("_offset", pa.int64()), ("a", pa.int32())])
    wider = pa.schema(
        [("_partition", pa.int32()), ("_offset", pa.int64()), ("a", pa.int64()), ("b", pa.string())]
    )
    rows = [{"_partition": 0, "_offset": 1, "a": 1}]
    before, after = (
        table(tmp_path / "a", rows, schema=schema),
        table(tmp_path / "b", rows, schema=wider),
    )
    found = diff(before, after)
    assert found.types == (ColumnTypes("a", "int32", "int64"), ColumnTypes("b", None, "string"))
    assert (found.changed, found.differs) == (0, True)


def test_earlier_versions_are_compared_from_their_own_files(tmp_path: Path) -> None:
    path = table(tmp_path / "t", ROWS[:10], ROWS[10:20])
    DeltaTable(path).optimize.compact()
    DeltaTable(path).delete("_offset < 5")
    found = compare(snapshot_of(path, 1), snapshot_of(path))
    assert (found.gone, found.added, found.changed) == (5, 0, 0)
    assert compare(snapshot_of(path, 0), snapshot_of(path, 1)).added == 10
    assert not compare(snapshot_of(path, 1), snapshot_of(path, 2)).differs


def test_columns_that_older_files_lack_are_null(tmp_path: Path) -> None:
    schema = pa.schema([("_partition", pa.int32()), ("_offset", pa.int64())])
    rows = [{"_partition": 0, "_offset": 1}]
    before = table(tmp_path / "a", rows, schema=schema)
    more = pa.Table.from_pylist([{"_partition": 0, "_offset": 2, "x": 1}])
    write_deltalake(
        before,
        more.cast(schema.append(pa.field("x", pa.int64()))),
        mode="append",
        schema_mode="merge",
    )
    after = table(
        tmp_path / "b",
        [{**rows[0], "x": None}, {"_partition": 0, "_offset": 2, "x": 2}],
        schema=schema.append(pa.field("x", pa.int64())),
    )
    assert changes(diff(before, after)) == {"x": 1}


def test_empty_tables_do_not_differ(tmp_path: Path) -> None:
    before, after = table(tmp_path / "a", ROWS), tmp_path / "b"
    DeltaTable.create(after, SCHEMA, partition_by=["day"])
    assert not diff(after, after).differs
    assert (diff(before, after).gone, diff(after, before).added) == (40, 40)


@pytest.mark.parametrize("settings", KEYS)
def test_result_is_the_same_after_json(tmp_path: Path, settings: Any) -> None:
    before = table(tmp_path / "a", ROWS)
    after = table(tmp_path / "b", [*ROWS[1:-1], row(39, name="x"), row(50)])
    found = diff(before, after, **settings)
    assert TableDiff.of_json(found.to_json()) == found
