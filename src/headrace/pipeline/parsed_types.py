"""The columns of a NamedTuple's annotations, as DDL."""

from __future__ import annotations

import types
from datetime import date, datetime
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

_SIMPLE: dict[Any, str] = {
    str: "STRING",
    int: "BIGINT",
    float: "DOUBLE",
    bool: "BOOLEAN",
    bytes: "BINARY",
    date: "DATE",
    datetime: "TIMESTAMP",
}


def columns_of_type(kind: type) -> str:
    """Return a NamedTuple's columns as a DDL string; TypeError for an annotation without a type.

    `Annotated[Decimal, "DECIMAL(12,2)"]` names a type of SQL that Python's lacks.
    """
    return ", ".join(_columns(kind, " "))


def _columns(kind: type, separator: str) -> list[str]:
    if not hasattr(kind, "_fields"):
        raise TypeError(f"parser: {kind!r} is no NamedTuple; give one, or the columns as DDL")
    columns = []
    for name, hint in get_type_hints(kind, include_extras=True).items():
        sql, nullable = _type(hint, f"{kind.__name__}.{name}")
        columns.append(f"`{name}`{separator}{sql}{'' if nullable else ' NOT NULL'}")
    return columns


def _type(hint: Any, place: str) -> tuple[str, bool]:  # noqa: ANN401 - an annotation
    """Return an annotation's type in SQL, and whether it may be null."""
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType) and type(None) in inside and len(inside) == 2:
        (other,) = (each for each in inside if each is not type(None))
        return _type(other, place)[0], True
    if origin is Annotated and isinstance(inside[1], str):
        return inside[1], False
    if hint in _SIMPLE:
        return _SIMPLE[hint], False
    if origin is list:
        return f"ARRAY<{_type(inside[0], place)[0]}>", False
    if origin is dict:
        key, value = (_type(each, place)[0] for each in inside)
        return f"MAP<{key}, {value}>", False
    if hasattr(hint, "_fields"):
        return f"STRUCT<{', '.join(_columns(hint, ': '))}>", False
    raise TypeError(
        f"parser: {place} is {hint!r}, which names no type of SQL: write "
        'Annotated[…, "DECIMAL(12,2)"]'
    )
