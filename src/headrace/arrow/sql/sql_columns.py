"""Columns for the fields of JSON values: their inference and their SQL.

Names and types come from a sample of records. A later value that does not fit its column's type
fails the query with advice: nothing is rounded or dropped silently. Values that are not JSON
objects have null in these columns.
"""

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

INT64_BITS = 63
COLUMNS_MAX = 500
"""Maximum number of inferred columns: objects used as maps have new names in each record."""

_FITTING = {
    "BOOLEAN": ("BOOLEAN",),
    "BIGINT": ("BIGINT", "UBIGINT"),
    "DOUBLE": ("DOUBLE", "BIGINT", "UBIGINT"),
    "VARCHAR": ("VARCHAR",),
}
"""DuckDB's json_type results that fit each column type."""


class Inferred(NamedTuple):
    """The columns inferred from a sample of values."""

    types: dict[str, str]
    """DuckDB's type by field, in the order of appearance; empty if no value is an object."""
    left_out: list[str]
    """Fields that got no column."""
    looked_at: int = 0
    """Number of sampled values that are not null."""
    others: tuple[int, ...] = ()
    """Sample positions of values that are not JSON objects."""


def infer(values: Iterable[bytes | None], taken: Sequence[str]) -> Inferred:
    """Infer columns from a sample of values; none unless at least one is a JSON object.

    `taken`: names of the record's own columns. Names are compared case-insensitively, as in SQL.
    """
    seen: dict[str, set[str]] = {}
    looked_at, others = 0, []
    for at, value in enumerate(values):
        if value is None:
            continue
        looked_at += 1
        try:
            fields = json.loads(value)
        except ValueError:
            fields = None
        if not isinstance(fields, dict):
            others.append(at)
            continue
        for name, content in fields.items():
            seen.setdefault(name, set()).add(_kind(content))
    types: dict[str, str] = {}
    left_out: list[str] = []
    names = {name.lower() for name in taken}
    for name, kinds in seen.items():
        unfit = not name or any(mark in name for mark in '"\\\0')
        if unfit or name.lower() in names or len(types) == COLUMNS_MAX:
            left_out.append(name)
        else:
            names.add(name.lower())
            types[name] = _type(kinds)
    return Inferred(types, left_out, looked_at, tuple(others))


def _kind(content: object) -> str:
    match content:
        case None:
            return "NULL"
        case bool():
            return "BOOLEAN"
        case int():
            return "BIGINT" if -(1 << INT64_BITS) <= content < 1 << INT64_BITS else "JSON"
        case float():
            return "DOUBLE"
        case str():
            return "VARCHAR"
    return "JSON"


def _type(kinds: set[str]) -> str:
    kinds = kinds - {"NULL"}
    if kinds == {"BIGINT", "DOUBLE"}:
        return "DOUBLE"
    return kinds.pop() if len(kinds) == 1 else "JSON"


def expression(topic: str, name: str, type_: str, object_: str) -> str:
    """Return the SQL expression of a column: a field of `object_`, an expression of type JSON."""
    path = text("$." + quoted(name))
    if type_ == "JSON":
        return f"json_extract({object_}, {path})"
    fitting = ", ".join(map(text, _FITTING[type_]))
    advice = (
        f"{topic}: a value of {name} is no {type_}, as all were that were looked at first; look at"
        f" more with --sample, or take it as JSON: value->'{name}'"
    )
    return (
        f"CASE WHEN json_type({object_}, {path}) IN ({fitting})"
        f" THEN CAST(json_extract_string({object_}, {path}) AS {type_})"
        f" WHEN json_type({object_}, {path}) IS NULL OR json_type({object_}, {path}) = 'NULL'"
        f" THEN NULL ELSE error({text(advice)}) END"
    )


def quoted(name: str) -> str:
    """Quote an identifier for SQL."""
    return '"' + name.replace('"', '""') + '"'


def text(content: str) -> str:
    """Quote a string literal for SQL."""
    return "'" + content.replace("'", "''") + "'"
