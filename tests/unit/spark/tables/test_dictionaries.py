"""Columns of a Parquet file have a dictionary if their values repeat."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.spark.tables.dictionaries import (
    SAMPLED_ROWS,
    SAMPLED_ROWS_MIN,
    dictionary_columns,
)

ROWS = 4 * SAMPLED_ROWS_MIN


def with_dictionary(rows: pa.Table) -> set[str]:
    """Write the rows; return the paths of the columns whose chunk has a dictionary page."""
    written = io.BytesIO()
    pq.write_table(rows, written, use_dictionary=dictionary_columns(rows))
    group = pq.ParquetFile(written).metadata.row_group(0)
    columns = [group.column(at) for at in range(group.num_columns)]
    return {column.path_in_schema for column in columns if column.has_dictionary_page}


def test_a_column_of_distinct_values_has_no_dictionary() -> None:
    rows = pa.table({"id": range(ROWS), "status": [200, 404] * (ROWS // 2)})
    assert with_dictionary(rows) == {"status"}


@pytest.mark.parametrize(("distinct", "expected"), [(0.5, True), (0.51, False)])
def test_half_of_the_values_may_be_distinct(distinct: float, expected: bool) -> None:
    kinds = int(ROWS * distinct)
    rows = pa.table({"user": [f"user-{at % kinds}" for at in range(ROWS)]})
    assert ("user" in with_dictionary(rows)) is expected


def test_nulls_do_not_count_as_repeated_values() -> None:
    rows = pa.table({"id": [at if at % 4 == 0 else None for at in range(ROWS)]})
    assert with_dictionary(rows) == set()


def test_a_few_values_say_nothing_so_they_have_a_dictionary() -> None:
    ids = [*range(SAMPLED_ROWS_MIN - 1), *[None] * ROWS]
    assert with_dictionary(pa.table({"id": ids})) == {"id"}


def test_only_the_first_rows_are_looked_at() -> None:
    ids = [*[7] * SAMPLED_ROWS, *range(ROWS)]
    assert dictionary_columns(pa.table({"id": ids})) == ["id"]


def test_each_leaf_of_a_nested_column_has_a_dictionary() -> None:
    kind = pa.struct(
        [
            ("a", pa.int64()),
            ("b", pa.list_(pa.struct([("c", pa.string())]))),
            ("d", pa.map_(pa.string(), pa.large_list(pa.float64()))),
        ]
    )
    row = {"a": 1, "b": [{"c": "x"}], "d": [("k", [1.5])]}
    rows = pa.table({"s": pa.array([row] * ROWS, kind)})
    assert with_dictionary(rows) == {
        "s.a",
        "s.b.list.element.c",
        "s.d.key_value.key",
        "s.d.key_value.value.list.element",
    }
