"""Which columns of a Parquet file get a dictionary.

A column whose values seldom repeat fills its dictionary page in the first rows and falls back to
plain values: it pays for a hash table and gains nothing. The first rows of a file tell.
"""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

SAMPLED_ROWS = 16_384
"""First rows of a file that are looked at."""
SAMPLED_ROWS_MIN = 1_024
"""Fewer rows say nothing: each column gets a dictionary, as is Parquet's default."""
DISTINCT_SHARE_MAX = 0.5
"""Above this share of distinct values in the sample, a column has no dictionary."""


def dictionary_columns(rows: pa.Table) -> list[str]:
    """Return the paths of the leaf columns that get a dictionary; nested ones always do."""
    sample = rows.slice(0, SAMPLED_ROWS)
    return [
        path
        for field in sample.schema
        if pa.types.is_nested(field.type) or _repeats(sample.column(field.name))
        for path in _leaves(field.name, field.type)
    ]


def _repeats(column: pa.ChunkedArray) -> bool:
    values = len(column) - column.null_count
    if values < SAMPLED_ROWS_MIN:
        return True
    return bool(pc.count_distinct(column).as_py() <= values * DISTINCT_SHARE_MAX)


def _leaves(path: str, kind: pa.DataType) -> Iterator[str]:
    """Yield the paths of a column's leaves in the file, by the Parquet format's names of levels."""
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(f"{path}.{field.name}", field.type)
    elif pa.types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", kind.key_type)
        yield from _leaves(f"{path}.key_value.value", kind.item_type)
    elif pa.types.is_nested(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    else:
        yield path
