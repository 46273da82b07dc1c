"""Columns of values that are JSON objects: which there are, and how SQL reads them.

Names and types come from a sample of records. What does not fit its column's type later ends the
query with an error that says how to go on: nothing is rounded or left out unsaid. Values that are
no JSON object have null in these columns, and do not take them from the others.
"""

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

INT64_BITS = 63
COLUMNS_MAX = 500
"""Columns made of a sample at most: objects used as maps have a name for each record."""

_FITTING = {
    "BOOLEAN": ("BOOLEAN",),
    "BIGINT": ("BIGINT", "UBIGINT"),
    "DOUBLE": ("DOUBLE", "BIGINT", "UBIGINT"),
    "VARCHAR": ("VARCHAR",),
}
"""Types of columns, with what DuckDB's json_type calls the values that fit."""


class Inferred(NamedTuple):
    """What a sample says."""

    types: dict[str, str]
    """DuckDB's type by field, in the order the fields came. Empty where values are no objects."""
    left_out: list[str]
    """Fields that got no column."""
    looked_at: int = 0
    """Values that are not null."""
    others: tuple[int, ...] = ()
    """The positions in the sample of values that are not JSON objects."""


def infer(values: Iterable[bytes | None], taken: Sequence[str]) -> Inferred:
    """Return the columns of a sample of values; none unless one of them is an object.

    `taken`: names that are the record's own. Names are compared as SQL does, whatever their case.
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
    """Return the SQL of a column: a field of `object_`, an expression of DuckDB's type JSON."""
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
    """Return a name as SQL takes it whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def text(content: str) -> str:
    """Return a text as SQL takes it."""
    return "'" + content.replace("'", "''") + "'"
