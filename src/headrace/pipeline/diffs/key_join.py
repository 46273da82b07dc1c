"""SQL that compares the rows of two versions with the same key.

The tables `before` and `after` have the columns c0, c1, …. Values leave DuckDB as text, because
Python's dates and times have fewer values than Arrow's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.pipeline.diffs.table_diff import ChangedValue, ColumnDiff

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

EXAMPLES_MAX = 3
_BOTH = "b.there AND a.there"


def duplicates_query(places: Sequence[int]) -> str:
    """Return the query for one key, as text, that several rows of the table `rows` have."""
    columns = ", ".join(f"c{place}" for place in places)
    texts = ", ".join(f"CAST(c{place} AS VARCHAR)" for place in places)
    return f"SELECT {texts} FROM rows GROUP BY {columns} HAVING count(*) > 1 LIMIT 1"  # noqa: S608


def is_number(kind: pa.DataType) -> bool:
    """Return whether values of this type have differences."""
    return any(
        test(kind) for test in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    )


def comparison_query(schema: pa.Schema, key: Sequence[str], tolerances: Mapping[str, float]) -> str:
    """Return the query whose one row has the differences of all rows."""
    keys = [schema.names.index(name) for name in key]
    compared = [place for place in range(len(schema)) if place not in keys]
    differs = {
        place: _differs(place, schema.field(place), tolerances.get(schema.names[place]))
        for place in compared
    }
    changed = " OR ".join(f"({condition})" for condition in differs.values()) or "false"
    parts = [
        "count(*) FILTER (b.there IS NULL) AS added",
        "count(*) FILTER (a.there IS NULL) AS gone",
        f"count(*) FILTER ({_BOTH} AND ({changed})) AS changed",
        f"{_keys('a', keys)} FILTER (b.there IS NULL) AS added_examples",
        f"{_keys('b', keys)} FILTER (a.there IS NULL) AS gone_examples",
    ]
    for place, condition in differs.items():
        where = f"FILTER ({_BOTH} AND ({condition}))"
        parts += [
            f"count(*) {where} AS changed{place}",
            f"{_delta_max(place, schema.field(place).type)} {where} AS delta{place}",
            f"{_examples(place, keys)} {where} AS examples{place}",
        ]
    on = " AND ".join(f"b.c{place} IS NOT DISTINCT FROM a.c{place}" for place in keys)
    return (
        f"SELECT {', '.join(parts)} FROM (SELECT *, true AS there FROM before) AS b"  # noqa: S608
        f" FULL OUTER JOIN (SELECT *, true AS there FROM after) AS a ON {on}"
    )


def read_comparison(schema: pa.Schema, key: Sequence[str], result: pa.Table) -> dict[str, Any]:
    """Return the fields of TableDiff from the query's row."""
    row = result.to_pylist()[0]
    columns = [
        ColumnDiff(
            name,
            int(row[f"changed{place}"]),
            row[f"delta{place}"],
            tuple(
                ChangedValue(_key_of(each, key), each["before"], each["after"])
                for each in row[f"examples{place}"] or ()
            ),
        )
        for place, name in enumerate(schema.names)
        if name not in key
    ]
    return {
        "added": int(row["added"]),
        "gone": int(row["gone"]),
        "changed": int(row["changed"]),
        "columns": tuple(columns),
        "added_examples": tuple(_key_of(each, key) for each in row["added_examples"] or ()),
        "gone_examples": tuple(_key_of(each, key) for each in row["gone_examples"] or ()),
    }


def _differs(place: int, field: pa.Field, tolerance: float | None) -> str:
    """Return the condition that two values of a column differ."""
    other = f"b.c{place} IS DISTINCT FROM a.c{place}"
    if tolerance is None:
        return other
    difference = _difference(place, field.type)
    # An exact difference such as 0.10 becomes the same double as the tolerance 0.1. NaN and
    # infinity differ from every number by more than any tolerance.
    within = f"CAST({difference} AS DOUBLE) <= {float(tolerance)!r}"
    return f"({other}) AND NOT coalesce({within}, false)"


def _difference(place: int, kind: pa.DataType) -> str:
    """Return the absolute difference of two numbers; null if it exceeds DuckDB's types."""
    wide = "HUGEINT" if pa.types.is_integer(kind) else None
    wide = "DOUBLE" if pa.types.is_floating(kind) else wide
    pair = [f"CAST({side}.c{place} AS {wide})" if wide else f"{side}.c{place}" for side in "ba"]
    return f"TRY(abs({pair[0]} - {pair[1]}))"


def _delta_max(place: int, kind: pa.DataType) -> str:
    if not is_number(kind):
        return "max(NULL::DOUBLE)"
    difference = f"CAST({_difference(place, kind)} AS DOUBLE)"
    return f"max(CASE WHEN isfinite({difference}) THEN {difference} END)"


def _texts(side: str, keys: Sequence[int]) -> str:
    return ", ".join(
        f"'k{number}': CAST({side}.c{place} AS VARCHAR)" for number, place in enumerate(keys)
    )


def _values(side: str, keys: Sequence[int]) -> str:
    """Return the key as a struct, by which examples are sorted."""
    return "{" + ", ".join(f"'k{n}': {side}.c{place}" for n, place in enumerate(keys)) + "}"


def _keys(side: str, keys: Sequence[int]) -> str:
    texts = "{" + _texts(side, keys) + "}"
    return f"arg_min({texts}, {_values(side, keys)}, {EXAMPLES_MAX})"


def _examples(place: int, keys: Sequence[int]) -> str:
    values = ", ".join(
        f"'{name}': CAST({side}.c{place} AS VARCHAR)"
        for name, side in (("before", "b"), ("after", "a"))
    )
    example = "{" + _texts("b", keys) + ", " + values + "}"
    return f"arg_min({example}, {_values('b', keys)}, {EXAMPLES_MAX})"


def _key_of(example: Mapping[str, str | None], key: Sequence[str]) -> tuple[str | None, ...]:
    return tuple(example[f"k{number}"] for number in range(len(key)))
