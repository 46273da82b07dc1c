"""A file's statistics by themselves, and in the words of Delta's log."""

import json
import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.spark.tables.delta_parts.statistics import log_statistics
from headrace.spark.tables.files import WrittenFile
from headrace.spark.tables.statistics import (
    RowBounds,
    Statistics,
    statistics_of,
    with_footer_bounds,
)


def found_in(tmp_path: Path, table: pa.Table, row_group_size: int) -> dict[str, Statistics]:
    """The statistics of a file of these rows."""
    path, looked = tmp_path / "f", RowBounds(table.schema)
    looked.look_at(table)
    pq.write_table(
        table, path, row_group_size=row_group_size,
        write_statistics=with_footer_bounds(table.schema),
    )  # fmt: skip
    return statistics_of(pq.read_metadata(path), table.schema, looked)


def test_statistics_are_of_all_row_groups(tmp_path: Path) -> None:
    table = pa.table({"n": [5, None, 1, None, None, 9], "void": [None, None, 1, 2, 3, 4]})
    found = found_in(tmp_path, table, 2)
    assert found == {"n": (1, 9, 3), "void": (1, 4, 2)}


def test_bounds_of_floats_are_given_where_all_are_finite(tmp_path: Path) -> None:
    nan, infinite = float("nan"), float("inf")
    table = pa.table({
        "sound": [1.5, None, -2.0], "nan": [1.0, nan, None], "infinite": [1.0, -infinite, 2.0],
        "zeros": [0.0, 0.0, 0.0], "void": pa.array([None] * 3, pa.float32()),
        "part": [{"x": 1.0}] * 3,
    })  # fmt: skip
    found = found_in(tmp_path, table, 2)
    assert found == {
        "sound": (-2.0, 1.5, 1), "nan": (None, None, 1), "infinite": (None, None, 0),
        "zeros": (0.0, 0.0, 0), "void": (None, None, 3),
    }  # fmt: skip
    assert [math.copysign(1, float(str(bound))) for bound in found["zeros"][:2]] == [-1, 1]
    footer = pq.read_metadata(tmp_path / "f")
    assert not any(footer.row_group(0).column(at).is_stats_set for at in range(6))


def test_nulls_are_counted_over_all_rows_of_a_file() -> None:
    schema = pa.schema([("f", pa.float32())])
    looked = RowBounds(schema)
    for values in ([None, 1.0], [None, None], [3.0, None]):
        looked.look_at(pa.table({"f": pa.array(values, pa.float32())}))
    footer: Any = SimpleNamespace(num_row_groups=0)
    assert statistics_of(footer, schema, looked) == {"f": (1.0, 3.0, 4)}


@pytest.mark.parametrize(
    ("texts", "least", "greatest"),
    [
        (["b", "a" * 64], "a" * 64, "b"), (["a" * 65], "a" * 64, "a" * 63 + "b"),
        (["a" * 5000, "b"], "a" * 64, "b"), (["a" * 5000], "a" * 64, "a" * 63 + "b"),
        (["\ud7ff" * 65], "\ud7ff" * 64, "\ud7ff" * 63 + "\ue000"),
        (["a" * 63 + "\U0010ffff" * 2], "a" * 63 + "\U0010ffff", "a" * 62 + "b"),
        (["\U0010ffff" * 65], None, None), (["\U0010ffff" * 5000, "a"], None, None),
    ],
)  # fmt: skip
def test_bounds_that_are_texts_are_cut_to_a_length(
    tmp_path: Path, texts: list[str], least: str | None, greatest: str | None
) -> None:
    for row_group_size in (1, 9):
        found = found_in(tmp_path, pa.table({"t": texts}), row_group_size)
        assert found["t"] == (least, greatest, 0)


def test_row_group_without_bounds_leaves_its_column_without_any() -> None:
    schema = pa.schema([("n", pa.int64())])

    def group(kind: str) -> Any:
        numbers = SimpleNamespace(
            has_null_count=True, has_min_max=kind == "known", min=1, max=2, null_count=0,
            num_values=0 if kind == "nulls" else 3,
        )  # fmt: skip
        column = SimpleNamespace(statistics=None if kind == "none" else numbers)
        return SimpleNamespace(column=lambda _: column)

    for kind, found in (
        ("known", (1, 2, 0)), ("nulls", (1, 2, 0)), ("lacking", (None, None, 0)),
        ("none", (None, None, None)),
    ):  # fmt: skip
        groups = [group("known"), group(kind)]
        footer: Any = SimpleNamespace(num_row_groups=2, row_group=groups.__getitem__)
        assert statistics_of(footer, schema, RowBounds(schema)) == {"n": found}


def test_leaves_are_named_as_parquet_names_them(tmp_path: Path) -> None:
    inside = pa.struct([("x", pa.int32()), ("f", pa.float32())])
    schema = pa.schema([
        ("a", inside), ("l", pa.list_(inside)), ("m", pa.map_(pa.string(), pa.list_(inside))),
        ("a.x", pa.string()), ("big", pa.large_list(pa.int8())),
    ])  # fmt: skip
    pq.write_table(schema.empty_table(), tmp_path / "f")
    footer = pq.read_metadata(tmp_path / "f").schema
    paths = [footer.column(at).path for at in range(len(footer))]
    assert with_footer_bounds(schema) == [path for path in paths if not path.endswith("f")]


# --- Delta's log ----------------------------------------------------------------------------------

TWO = [pa.field("a", pa.int64()), pa.field("b", pa.string())]


def said(
    statistics: dict[str, Any], *columns: pa.Field, rows: int = 5, full: set[str] | None = None
) -> dict[str, Any]:
    """Return the statistics of a file in Delta's log."""
    each = {name: Statistics(*found) for name, found in statistics.items()}
    file = WrittenFile("p", (), rows, 9, each, frozenset(full or ()))
    return dict(json.loads(log_statistics(file, columns), parse_float=str))


def test_log_has_bounds_of_all_columns_or_of_none() -> None:
    whole = said({"a": (1, 2, 0), "b": ("x", "y", 1)}, *TWO)
    assert whole == {
        "numRecords": 5, "nullCount": {"a": 0, "b": 1},
        "minValues": {"a": 1, "b": "x"}, "maxValues": {"a": 2, "b": "y"},
    }  # fmt: skip
    for lacking in ((None, None, 4), (None, None, None)):
        found = said({"a": (1, 2, 0), "b": lacking}, *TWO)
        assert "minValues" not in found
        assert "maxValues" not in found
    assert found["nullCount"] == {"a": 0}


def test_column_of_nulls_alone_has_no_bounds_and_takes_none_away() -> None:
    found = said({"a": (1, 2, 0), "b": (None, None, 5)}, *TWO)
    assert (found["minValues"], found["nullCount"]) == ({"a": 1}, {"a": 0, "b": 5})
    lacking = said({"a": (1, 2, 0)}, *TWO)
    assert lacking == found, "a column that the file does not have is null in all rows"


def test_log_has_no_bounds_where_a_struct_is_null() -> None:
    part = pa.field("part", pa.struct([("x", pa.int32())]))
    assert "minValues" not in said({"a": (1, 2, 0)}, TWO[0], part)
    assert "minValues" in said({"a": (1, 2, 0)}, TWO[0], part, full={"part"})


def test_columns_that_other_writers_give_no_bounds_of_take_none_away() -> None:
    others = [
        pa.field("k", pa.binary()), pa.field("l", pa.list_(pa.int8())),
        pa.field("m", pa.map_(pa.string(), pa.int8())),
    ]  # fmt: skip
    found = said({"a": (1, 2, 0)}, TWO[0], *others)
    assert (found["minValues"], found["nullCount"]) == ({"a": 1}, {"a": 0})


def test_texts_are_raw_and_decimals_are_numbers_with_all_digits() -> None:
    text = '\U00020bb7\u91ce"\n'
    big = Decimal("12345678901234567890.12345678")
    statistics = {"a": Statistics(Decimal("0E-8"), big, 0), text: Statistics(text, text, 0)}
    columns = [pa.field("a", pa.decimal128(38, 8)), pa.field(text, pa.string())]
    found = log_statistics(WrittenFile("p", (), 1, 9, statistics), columns)
    assert '"a":0.00000000' in found
    assert f'"a":{big}' in found
    assert "\U00020bb7" in found
    assert "\\u" not in found
    assert json.loads(found)["maxValues"][text] == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"), (-0.0, "-0.0"), (1e300, "1e+300"), (date(1, 2, 3), '"0001-02-03"'),
        (datetime(2026, 1, 2, 1, 30, tzinfo=timezone(timedelta(hours=2))),
         '"2026-01-01T23:30:00.000000Z"'),
        (datetime(2026, 1, 1, 23, 30, tzinfo=UTC), '"2026-01-01T23:30:00.000000Z"'),
        (datetime(2026, 1, 2, 1, 30), '"2026-01-02T01:30:00.000000"'),
    ],
)  # fmt: skip
def test_bound_stands_in_the_log_as_other_writers_have_it(value: Any, text: str) -> None:
    file = WrittenFile("p", (), 1, 9, {"a": Statistics(value, value, 0)})
    found = log_statistics(file, [pa.field("a", pa.string())])
    assert f'"minValues":{{"a":{text}}}' in found
