"""Reasons for which a value is refused, and their words.

The kernel and its twin report a `Fault`, the field's path and a byte. The words are made here, from
the value itself, so both say the same.
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import cache
from typing import NamedTuple

from headrace.typed.types import DEPTH_MAX, INTEGERS, ColumnType, Kind, Unit

EXCERPT_CHARACTERS = 40
_EXCERPT = re.compile(rb'"(?:[^"\\]|\\.){0,160}"?|[^ \t\r\n,:\]}\[{"]{1,160}|.', re.DOTALL)
"""A string, a number or word, or a single mark."""


class Fault(IntEnum):
    """Why a value is refused. Those below TYPE concern the record as a whole."""

    EMPTY = 1
    BYTE_ORDER_MARK = 2
    NOT_OBJECT = 3
    SYNTAX = 4
    UTF8 = 5
    SURROGATE = 6
    DEPTH = 7
    TRAILING = 8
    TYPE = 10
    RANGE = 11
    INEXACT = 12
    NULL = 13
    MISSING = 14
    TWICE = 15
    TIME = 16
    NO_ZONE = 17
    ZONE = 18


MALFORMED = frozenset(fault for fault in Fault if fault < Fault.TYPE)
"""Faults of a record that is not a JSON object. Two decoders may find different ones of them."""

_NUMBERS = {
    Unit.SECONDS: "seconds",
    Unit.MILLIS: "milliseconds",
    Unit.MICROS: "microseconds",
    Unit.NANOS: "nanoseconds",
    Unit.DAYS: "days",
}
_EXPECTED = {
    Kind.STRUCT: "an object",
    Kind.ARRAY: "an array",
    Kind.MAP: "an object",
    Kind.STRING: "a string",
    Kind.BOOLEAN: "true or false",
    Kind.DOUBLE: "a number",
    Kind.FLOAT: "a number",
    Kind.DECIMAL: "a decimal number",
    Kind.BINARY: "a string in base64",
    Kind.DATE: 'a date such as "2026-11-28"',
    Kind.TIMESTAMP: 'a time such as "2026-11-28T10:00:00Z"',
    Kind.TIMESTAMP_NTZ: 'a time such as "2026-11-28T10:00:00"',
}


class Refusal(NamedTuple):
    """A refused value: the fault, the column's path (empty: the record) and the byte."""

    fault: Fault
    path: str
    at: int

    def words(self, value: bytes, column: ColumnType | None = None) -> str:
        """Return the reason as text; `column`: the type of the field at `path`."""
        got = excerpt(value, self.at)
        place = f" (byte {self.at})"
        if self.fault in MALFORMED:
            return _of_record(self.fault, got) + ("" if self.fault is Fault.EMPTY else place)
        return f"{self.path}: {_of_field(self.fault, got, column)}{place}"


def _of_record(fault: Fault, got: str) -> str:
    match fault:
        case Fault.EMPTY:
            return "empty value"
        case Fault.BYTE_ORDER_MARK:
            return "not JSON: begins with a byte order mark"
        case Fault.NOT_OBJECT:
            return f"expected an object, got {got}"
        case Fault.UTF8:
            return "invalid UTF-8"
        case Fault.SURROGATE:
            return "half of a surrogate pair in a string"
        case Fault.DEPTH:
            return f"more than {DEPTH_MAX} nested objects and arrays"
        case Fault.TRAILING:
            return f"text after the object: {got}"
    return f"not JSON: unexpected {got}"


def _of_field(fault: Fault, got: str, column: ColumnType | None) -> str:
    match fault:
        case Fault.RANGE:
            return f"{got} is beyond {column}"
        case Fault.INEXACT:
            return f"{got} does not fit {column}"
        case Fault.NULL:
            return "null, but NOT NULL"
        case Fault.MISSING:
            return "missing, but NOT NULL"
        case Fault.TWICE:
            return "given twice"
        case Fault.NO_ZONE:
            return f"{got} has no zone (TIMESTAMP_NTZ, or COMMENT 'zone UTC')"
        case Fault.ZONE:
            return f"{got} has a zone (TIMESTAMP has one, TIMESTAMP_NTZ has none)"
    is_count = column is not None and column.kind is Kind.TIMESTAMP and got[0] in "-0123456789"
    hint = " (COMMENT 'epoch ms' declares its unit)" if is_count else ""
    return f"expected {expected(column)}, got {got}{hint}"


@cache
def expected(column: ColumnType | None) -> str:
    """Return the JSON value that is expected for a type, in words."""
    if column is None:
        return "another value"
    if column.unit in _NUMBERS:
        return f"a number of {_NUMBERS[column.unit]} since 1970"
    return "an integer" if column.kind in INTEGERS else _EXPECTED[column.kind]


def excerpt(value: bytes, at: int) -> str:
    """Return the JSON value that begins at byte `at`, in at most 40 characters."""
    found = _EXCERPT.match(value, at)
    if found is None:
        return "the end"
    text = found[0].decode("utf-8", "replace")
    if not text.isprintable():
        text = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
    return text if len(text) <= EXCERPT_CHARACTERS else f"{text[: EXCERPT_CHARACTERS - 1]}…"
