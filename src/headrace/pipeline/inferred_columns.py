"""Infer the columns of JSON records: types that decode each record of a sample.

A type is tried with the decoder of typed topics, so the columns decode at least the sample. A key
whose values have no common type is left out and named.
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


@dataclass(frozen=True)
class InferredColumns:
    """Columns of a sample."""

    ddl: tuple[str, ...]
    """Each column's name and type, in the order of their first appearance."""
    left_out: tuple[str, ...]
    """Keys without a common type."""
    event_time: str | None
    """The first TIMESTAMP column; None without one."""


def infer_columns(values: Sequence[bytes]) -> InferredColumns | None:
    """Return the columns of a sample; None if a value is not an object, or no key has a type."""
    records = []
    for value in values:
        try:
            record = json.loads(value)
        except ValueError:
            return None
        if not isinstance(record, dict):
            return None
        records.append(record)
    ddl, left_out, event_time = [], [], None
    taken: set[str] = set()
    for key in dict.fromkeys(key for record in records for key in record):
        kind = _type([record[key] for record in records if key in record])
        name = _quoted(key)
        if kind is None or key.casefold() in taken or not _decodes(f"{name} {kind}", values):
            left_out.append(key)
            continue
        taken.add(key.casefold())
        ddl.append(f"{name} {kind}")
        if kind == "TIMESTAMP" and event_time is None:
            event_time = key
    return InferredColumns(tuple(ddl), tuple(left_out), event_time) if ddl else None


def _type(values: Sequence[Any]) -> str | None:
    """Return a type for the values of one key; None without one."""
    found = [value for value in values if value is not None]
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


def _number_type(values: Sequence[int]) -> str:
    encoded = [json.dumps({"x": value}).encode() for value in values]
    return next((kind for kind in _INTEGER_TYPES if _decodes(f"x {kind}", encoded)), "DOUBLE")


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
        schema = parse_ddl(column)
    except ValueError:
        return False
    return not any(isinstance(decode_record(value, schema), Refusal) for value in values)


def _quoted(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"
