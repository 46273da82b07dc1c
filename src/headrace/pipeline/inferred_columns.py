"""Infer the columns of JSON records: types that decode nearly each record of a sample.

A type is tried with the decoder of typed topics. Up to a tenth of the records may be damaged: they
do not decide about a type, and a run refuses them. A key whose values have no common type is left
out and named.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.typed.ddl import parse_ddl
from headrace.typed.plain import decode_record
from headrace.typed.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TEXT_TYPES = ("TIMESTAMP", "DATE", "TIMESTAMP_NTZ")
_INTEGER_TYPES = ("BIGINT", "DECIMAL(38,0)")
_DAMAGED_SHARE_MAX = 0.1
"""Share of a sample's records, or of a key's values, that may be damaged."""


@dataclass(frozen=True)
class InferredColumns:
    """Columns of a sample."""

    ddl: tuple[str, ...]
    """Each column's name and type, in the order of their first appearance."""
    left_out: tuple[str, ...]
    """Keys without a common type."""
    event_time: str | None
    """The first TIMESTAMP column; None without one."""
    refused: int = 0
    """Records of the sample that do not fit the columns."""


def infer_columns(values: Sequence[bytes]) -> InferredColumns | None:
    """Return the columns of a sample; None if too few values are objects, or no key has a type."""
    found = [(record, value) for value in values if (record := _object(value)) is not None]
    if not nearly_all(len(found), len(values)):
        return None
    records = [record for record, _ in found]
    objects = [value for _, value in found]
    ddl, left_out, event_time = [], [], None
    taken: set[str] = set()
    for key in dict.fromkeys(key for record in records for key in record):
        kind = _type([record[key] for record in records if key in record])
        name = _quoted(key)
        if kind is None or key.casefold() in taken or not _decodes(f"{name} {kind}", objects):
            left_out.append(key)
            continue
        taken.add(key.casefold())
        ddl.append(f"{name} {kind}")
        if kind == "TIMESTAMP" and event_time is None:
            event_time = key
    if not ddl:
        return None
    refused = _refused(", ".join(ddl), values)
    return InferredColumns(tuple(ddl), tuple(left_out), event_time, refused)


def _object(value: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(value)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def nearly_all(count: int, of: int) -> bool:
    """Return whether the rest of a sample may be damaged."""
    return of - count <= of * _DAMAGED_SHARE_MAX


def _type(values: Sequence[Any]) -> str | None:
    """Return a type for nearly all values of one key; None without one."""
    found = _alike([value for value in values if value is not None])
    kinds = {type(value) for value in found}
    if not kinds:
        return "STRING"
    if kinds == {bool}:
        return "BOOLEAN"
    if kinds <= {int, float}:
        return _number_type(found) if kinds == {int} else "DOUBLE"
    if kinds == {str}:
        return _text_type(found)
    if kinds == {list}:
        inside = _type([item for value in found for item in value])
        return None if inside is None else f"ARRAY<{inside}>"
    if kinds == {dict}:
        return _struct_type(found)
    return None


def _alike(values: Sequence[Any]) -> Sequence[Any]:
    """Return the values of the kind that nearly all have; all values without one."""
    for kinds in ({int, float}, {str}, {bool}, {list}, {dict}):
        alike = [value for value in values if type(value) in kinds]
        if alike and nearly_all(len(alike), len(values)):
            return alike
    return values


def _number_type(values: Sequence[int]) -> str:
    encoded = [json.dumps({"x": value}).encode() for value in values]
    return next((kind for kind in _INTEGER_TYPES if not _refused(f"x {kind}", encoded)), "DOUBLE")


def _text_type(values: Sequence[str]) -> str:
    encoded = [json.dumps({"x": value}).encode() for value in values]
    return next((kind for kind in _TEXT_TYPES if _decodes(f"x {kind}", encoded)), "STRING")


def _struct_type(values: Sequence[dict[str, Any]]) -> str | None:
    fields = []
    for key in dict.fromkeys(key for value in values for key in value):
        kind = _type([value[key] for value in values if key in value])
        if kind is not None:
            fields.append(f"{_quoted(key)}: {kind}")
    return f"STRUCT<{', '.join(fields)}>" if fields else None


def _decodes(column: str, values: Sequence[bytes]) -> bool:
    try:
        return nearly_all(len(values) - _refused(column, values), len(values))
    except ValueError:  # a name or a type that is no DDL
        return False


def _refused(columns: str, values: Sequence[bytes]) -> int:
    """Return how many records do not fit columns."""
    schema = parse_ddl(columns)
    return sum(isinstance(decode_record(value, schema), Refusal) for value in values)


def _quoted(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"
