"""Columns of the rows against those of the table: new ones are added, other changes are refused.

A column that the table lacks becomes a nullable column by the commit of the batch that brings it;
earlier rows are null in it. A column that the query no longer writes is recognised by the digest of
its columns, which the marker stores: columns that others added to the table are not an error.
"""

from collections.abc import Collection, Iterable, Sequence
from hashlib import blake2b

import pyarrow as pa

from headrace.spark.tables.columns import check_nulls, fits, nullable
from headrace.spark.tables.errors import TableError

_NEW_VERSION = (
    "or write a new version of the table: another path, a new checkpointLocation and "
    "startingOffsets=earliest"
)


def columns_to_add(table: str, rows: Iterable[pa.Field], there: pa.Schema) -> list[pa.Field]:
    """Return the columns that the table lacks, nullable; TableError if others do not fit.

    `table`: its name for error texts.
    """
    rows = list(rows)
    check_names(table, [column.name for column in rows], there.names)
    added = []
    for column in rows:
        if pa.types.is_null(column.type):
            raise TableError(
                f"{table}: {column.name} is NULL without a type: write CAST(NULL AS …) AS "
                f"{column.name} in the query"
            )
        if column.name not in there.names:
            added.append(column)
            continue
        kind = there.field(column.name).type
        if not fits(column.type, kind):
            raise retyped(table, column.name, column.type, kind)
    return list(nullable(added))


def check_rows(table: str, rows: Sequence[pa.Field], there: pa.Schema) -> list[pa.Field]:
    """Return the columns that the table lacks; TableError if the query's rows do not fit.

    Unlike the columns of files, which are all nullable, the query's tell whether it has nulls.
    """
    added = columns_to_add(table, rows, there)
    given = {column.name: column for column in rows}
    for column in there:
        lacking = column.with_nullable(True)
        check_nulls(table, given.get(column.name, lacking), column)
    return added


def check_names(table: str, rows: Iterable[str], there: Iterable[str]) -> None:
    """Raise TableError if a new column differs from one of the table by case only."""
    names = {name.casefold(): name for name in there}
    for name in rows:
        other = names.get(name.casefold(), name)
        if other != name and name not in names.values():
            raise TableError(
                f"{table} has a column {other}, and the query writes {name}: names that differ by "
                "case only are one column to most readers; rename the query's"
            )


def retyped(table: str, name: str, rows: object, there: object) -> TableError:
    """Return the error for a column whose type in the rows the table's column cannot store."""
    return TableError(
        f"{table}: {name} is {there}, not {rows}, and keeps its type: cast the column in the "
        f"query, write it under another name, {_NEW_VERSION}"
    )


def check_written(table: str, rows: Sequence[str], there: Collection[str], before: int) -> None:
    """Raise TableError if the query no longer writes columns of the table.

    `before`: digest of the columns that it wrote last.
    """
    lacking = [name for name in there if name not in rows]
    only_adds = digest_of_columns(name for name in rows if name in there) == before
    if lacking and not only_adds and digest_of_columns(rows) != before:
        names = ", ".join(lacking)
        raise TableError(
            f"{table} has {names}, which the query no longer writes: add CAST(NULL AS …) AS "
            f"{lacking[0]} to the query to continue without values, {_NEW_VERSION}"
        )


def digest_of_columns(names: Iterable[str]) -> int:
    """Return a 63-bit digest of a query's columns that is not 0."""
    text = "\n".join(sorted(names))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 1 or 1
