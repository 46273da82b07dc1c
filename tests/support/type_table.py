"""The type table: for each JSON value, the types that accept it and why the others refuse it.

Written by hand from the decisions on docs/typed-topics.md, whose tables are generated from it.
`tests/unit/typed` holds the plain decoder, the kernel and the page to it.
"""

# ruff: noqa: E501
# A case a line, so that rows can be compared.

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from headrace.typed.refusal import Fault

TYPES = (
    "BOOLEAN", "TINYINT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(4,2)", "STRING", "BINARY", "DATE",
    "TIMESTAMP", "TIMESTAMP_NTZ", "STRUCT<x: INT>", "ARRAY<INT>", "MAP<STRING, INT>",
)  # fmt: skip
DECLARED = {
    "epoch s": "TIMESTAMP COMMENT 'epoch s'",
    "epoch ms": "TIMESTAMP COMMENT 'epoch ms'",
    "epoch ns": "TIMESTAMP COMMENT 'epoch ns'",
    "epoch days": "DATE COMMENT 'epoch days'",
    "zone UTC": "TIMESTAMP COMMENT 'zone UTC'",
}
"""Short names of types with a declared unit."""
DDL = {name: name for name in TYPES} | DECLARED
NUMBERS = ("epoch s", "epoch ms", "epoch ns")


@dataclass(frozen=True)
class Case:
    """A JSON value; types that are not named refuse it with TYPE."""

    json: str
    values: dict[str, Any]
    faults: dict[str, Fault] = field(default_factory=dict)
    spark: str = ""
    """How Spark's from_json differs."""

    def of(self, name: str) -> Any:
        """Return the value by a type, or the fault."""
        return self.values[name] if name in self.values else self.faults.get(name, Fault.TYPE)


@dataclass(frozen=True)
class Section:
    """Cases of one kind, under a heading of the page."""

    heading: str
    cases: tuple[Case, ...]


def _at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc,arg-type]


def _times(aware: datetime | None, local: datetime | None, **others: Any) -> dict[str, Any]:
    """Return the values of the types of time: `aware` with a zone, `local` without."""
    found = dict(others)
    if aware is not None:
        found |= {"TIMESTAMP": aware, "zone UTC": aware}
    if local is not None:
        found |= {"TIMESTAMP_NTZ": local, "zone UTC": local.replace(tzinfo=UTC)}
    return found


TEXT_FAULTS = {"DATE": Fault.TIME, "TIMESTAMP": Fault.TIME, "TIMESTAMP_NTZ": Fault.TIME, "zone UTC": Fault.TIME}  # fmt: skip
HAS_ZONE = {"DATE": Fault.TIME, "TIMESTAMP_NTZ": Fault.ZONE}
HAS_NO_ZONE = {"DATE": Fault.TIME, "TIMESTAMP": Fault.NO_ZONE}


def _whole(number: int) -> dict[str, Any]:
    """Return the values of an integer that fits every type of number but epochs."""
    return {
        "TINYINT": number,
        "BIGINT": number,
        "FLOAT": float(number),
        "DOUBLE": float(number),
        "DECIMAL(4,2)": Decimal(number).quantize(Decimal("0.01")),
    }


def _epochs(number: int) -> dict[str, Any]:
    """Return the times of a small number of units."""
    return {
        "epoch s": _at(1970, 1, 1, 0, 0, number),
        "epoch ms": _at(1970, 1, 1, 0, 0, 0, number * 1000),
        "epoch ns": _at(1970, 1, 1, 0, 0, 0, 0),
        "epoch days": date(1970, 1, 1 + number),
    }


NUMBERS_TOO_LARGE = {
    "TINYINT": Fault.RANGE, "BIGINT": Fault.RANGE, "DECIMAL(4,2)": Fault.INEXACT,
    "epoch s": Fault.RANGE, "epoch ms": Fault.RANGE, "epoch ns": Fault.RANGE,
    "epoch days": Fault.RANGE,
}  # fmt: skip
_DOUBLES = {"FLOAT", "DOUBLE"}
NULLS = Case("null", dict.fromkeys(DDL))

SECTIONS = (
    Section("Null, true, false", (
        NULLS,
        Case("true", {"BOOLEAN": True}, spark="STRING: the text `true`"),
        Case('"true"', {"STRING": "true", "BINARY": b"\xb6\xbb\x9e"}, TEXT_FAULTS),
    )),
    Section("Integers", (
        Case("1", _whole(1) | _epochs(1), spark="STRING: the text; TIMESTAMP: seconds since 1970"),
        Case("-0", _whole(0) | _epochs(0) | {"FLOAT": -0.0, "DOUBLE": -0.0}, spark="DOUBLE: 0.0"),
        Case("127", _whole(127) | {
            "epoch s": _at(1970, 1, 1, 0, 2, 7), "epoch ms": _at(1970, 1, 1, 0, 0, 0, 127_000),
            "epoch ns": _at(1970, 1, 1), "epoch days": date(1970, 5, 8),
        } | {"DECIMAL(4,2)": Fault.INEXACT}),
        Case("128", _whole(128) | {
            "epoch s": _at(1970, 1, 1, 0, 2, 8), "epoch ms": _at(1970, 1, 1, 0, 0, 0, 128_000),
            "epoch ns": _at(1970, 1, 1), "epoch days": date(1970, 5, 9),
            "TINYINT": Fault.RANGE, "DECIMAL(4,2)": Fault.INEXACT,
        }, spark="TINYINT: -128"),
        Case("9223372036854775807", {
            "BIGINT": 2**63 - 1, "FLOAT": 2.0**63, "DOUBLE": 2.0**63,
            "epoch ns": Fault.RANGE,
        } | NUMBERS_TOO_LARGE | {"BIGINT": 2**63 - 1, "epoch ns": _at(2262, 4, 11, 23, 47, 16, 854775)},
            spark="TIMESTAMP: seconds that wrap around"),
        Case("-9223372036854775808", {"FLOAT": -(2.0**63), "DOUBLE": -(2.0**63)} | NUMBERS_TOO_LARGE
             | {"BIGINT": -(2**63)}),
        Case("9223372036854775808", {"FLOAT": 2.0**63, "DOUBLE": 2.0**63}, NUMBERS_TOO_LARGE),
        Case("9007199254740993", {
            "BIGINT": 2**53 + 1, "FLOAT": 2.0**53, "DOUBLE": 2.0**53,
        } | NUMBERS_TOO_LARGE | {"BIGINT": 2**53 + 1, "epoch ns": _at(1970, 4, 15, 5, 59, 59, 254740)}),
    )),
    Section("Other numbers", (
        Case("1.0", {
            "FLOAT": 1.0, "DOUBLE": 1.0, "DECIMAL(4,2)": Decimal("1.00"),
            "epoch s": _at(1970, 1, 1, 0, 0, 1), "epoch ms": _at(1970, 1, 1, 0, 0, 0, 1000),
            "epoch ns": _at(1970, 1, 1),
        }, spark="STRING: the text"),
        Case("1e3", {"FLOAT": 1000.0, "DOUBLE": 1000.0}, {"DECIMAL(4,2)": Fault.INEXACT},
             spark="STRING: the text `1000.0`"),
        Case("1e1", {"FLOAT": 10.0, "DOUBLE": 10.0, "DECIMAL(4,2)": Decimal("10.00")}),
        Case("1.5", {
            "FLOAT": 1.5, "DOUBLE": 1.5, "DECIMAL(4,2)": Decimal("1.50"),
            "epoch s": _at(1970, 1, 1, 0, 0, 1, 500_000), "epoch ms": _at(1970, 1, 1, 0, 0, 0, 1500),
            "epoch ns": _at(1970, 1, 1),
        }),
        Case("-1.5", {
            "FLOAT": -1.5, "DOUBLE": -1.5, "DECIMAL(4,2)": Decimal("-1.50"),
            "epoch s": _at(1969, 12, 31, 23, 59, 58, 500_000),
            "epoch ms": _at(1969, 12, 31, 23, 59, 59, 998_500),
            "epoch ns": _at(1969, 12, 31, 23, 59, 59, 999_999),
        }),
        Case("12.3400", {
            "FLOAT": 12.34000015258789, "DOUBLE": 12.34, "DECIMAL(4,2)": Decimal("12.34"),
            "epoch s": _at(1970, 1, 1, 0, 0, 12, 340_000),
            "epoch ms": _at(1970, 1, 1, 0, 0, 0, 12_340), "epoch ns": _at(1970, 1, 1),
        }),
        Case("12.345", {
            "FLOAT": 12.345000267028809, "DOUBLE": 12.345, "DECIMAL(4,2)": Fault.INEXACT,
            "epoch s": _at(1970, 1, 1, 0, 0, 12, 345_000),
            "epoch ms": _at(1970, 1, 1, 0, 0, 0, 12_345), "epoch ns": _at(1970, 1, 1),
        }, spark="DECIMAL(4,2): 12.35, rounded"),
        Case("0.1", {
            "FLOAT": 0.10000000149011612, "DOUBLE": 0.1, "DECIMAL(4,2)": Decimal("0.10"),
            "epoch s": _at(1970, 1, 1, 0, 0, 0, 100_000),
            "epoch ms": _at(1970, 1, 1, 0, 0, 0, 100), "epoch ns": _at(1970, 1, 1),
        }),
        Case("3.5e38", {"DOUBLE": 3.5e38}, {"FLOAT": Fault.RANGE, "DECIMAL(4,2)": Fault.INEXACT},
             spark="FLOAT: infinity"),
        Case("1e400", {}, {"FLOAT": Fault.RANGE, "DOUBLE": Fault.RANGE, "DECIMAL(4,2)": Fault.INEXACT},
             spark="FLOAT, DOUBLE: infinity"),
        Case("1e-400", {"FLOAT": 0.0, "DOUBLE": 0.0}, {"DECIMAL(4,2)": Fault.INEXACT},
             spark="DECIMAL(4,2): 0.00"),
        Case("5e-324", {"FLOAT": 0.0, "DOUBLE": 5e-324}, {"DECIMAL(4,2)": Fault.INEXACT}),
        Case("1764369135.123456", {
            "FLOAT": 1764369152.0, "DOUBLE": 1764369135.123456, "DECIMAL(4,2)": Fault.INEXACT,
            "epoch s": _at(2025, 11, 28, 22, 32, 15, 123_456),
            "epoch ms": _at(1970, 1, 21, 10, 6, 9, 135_123),
            "epoch ns": _at(1970, 1, 1, 0, 0, 1, 764_369),
        }),
        Case("NaN", {"FLOAT": math.nan, "DOUBLE": math.nan}, spark="STRING: the text"),
        Case("-Infinity", {"FLOAT": -math.inf, "DOUBLE": -math.inf}, spark="STRING: the text"),
        Case('"NaN"', {"FLOAT": math.nan, "DOUBLE": math.nan, "STRING": "NaN"}, TEXT_FAULTS),
        Case('"+INF"', {"FLOAT": math.inf, "DOUBLE": math.inf, "STRING": "+INF", "BINARY": b"\xf8\x83E"},
             TEXT_FAULTS),
        Case('"INF"', {"STRING": "INF"}, TEXT_FAULTS),
    )),
    Section("Strings", (
        Case('""', {"STRING": "", "BINARY": b""}, TEXT_FAULTS),
        Case('"a\\u0000b"', {"STRING": "a\0b"}, TEXT_FAULTS),
        Case('"12.34"', {"DECIMAL(4,2)": Decimal("12.34"), "STRING": "12.34"}, TEXT_FAULTS),
        Case('"12,34"', {"STRING": "12,34"}, TEXT_FAULTS),
        Case('"+5"', {"STRING": "+5"}, TEXT_FAULTS, spark="DECIMAL: 5.00; DATE: the sixth day of 1970"),
        Case('"1"', {"DECIMAL(4,2)": Decimal("1.00"), "STRING": "1"}, TEXT_FAULTS,
             spark="DATE: the second day of 1970"),
        Case('"aGk="', {"STRING": "aGk=", "BINARY": b"hi"}, TEXT_FAULTS),
        Case('"aGk"', {"STRING": "aGk"}, TEXT_FAULTS),
        Case('"\\u00e9\\ud83d\\ude00"', {"STRING": "é😀"}, TEXT_FAULTS),
    )),
    Section("Times", (
        Case('"2026-11-28"', _times(None, datetime(2026, 11, 28), STRING="2026-11-28",
                                    DATE=date(2026, 11, 28)),
             {"TIMESTAMP": Fault.NO_ZONE}, spark="TIMESTAMP: in the session's zone"),
        Case('"2026-11-28T10:00:00Z"', _times(_at(2026, 11, 28, 10), None,
                                              STRING="2026-11-28T10:00:00Z"),
             HAS_ZONE, spark="DATE: the time is dropped"),
        Case('"2026-11-28 10:00:00"', _times(None, datetime(2026, 11, 28, 10),
                                             STRING="2026-11-28 10:00:00"),
             HAS_NO_ZONE, spark="TIMESTAMP: in the session's zone; DATE: the time is dropped"),
        Case('"2026-11-28T10:00Z"', _times(_at(2026, 11, 28, 10), None, STRING="2026-11-28T10:00Z"),
             HAS_ZONE, spark="TIMESTAMP: refused"),
        Case('"2026-11-28T10:00:00.123456789+02:00"',
             _times(_at(2026, 11, 28, 8, 0, 0, 123456), None,
                    STRING="2026-11-28T10:00:00.123456789+02:00"), HAS_ZONE),
        Case('"2026-11-28T10:00:00\\u002b0200"',
             _times(_at(2026, 11, 28, 8), None, STRING="2026-11-28T10:00:00+0200"), HAS_ZONE),
        Case('"1969-12-31T23:59:59.9-01"', _times(_at(1970, 1, 1, 0, 59, 59, 900_000), None,
                                                  STRING="1969-12-31T23:59:59.9-01"), HAS_ZONE),
        Case('"2026-11-28T10:00:60Z"', {"STRING": "2026-11-28T10:00:60Z"}, TEXT_FAULTS),
        Case('"2026-11-28T24:00:00Z"', {"STRING": "2026-11-28T24:00:00Z"}, TEXT_FAULTS),
        Case('"2026-02-29"', {"STRING": "2026-02-29"}, TEXT_FAULTS),
        Case('"2024-02-29"', _times(None, datetime(2024, 2, 29), STRING="2024-02-29",
                                    DATE=date(2024, 2, 29)), {"TIMESTAMP": Fault.NO_ZONE}),
        Case('"2026-1-5"', {"STRING": "2026-1-5"}, TEXT_FAULTS, spark="DATE, TIMESTAMP: accepted"),
        Case('"2026-11-28T10:00:00 Europe/Berlin"', {"STRING": "2026-11-28T10:00:00 Europe/Berlin"},
             TEXT_FAULTS, spark="TIMESTAMP: accepted"),
        Case('"0000-01-01T00:00:00Z"', {"STRING": "0000-01-01T00:00:00Z"}, TEXT_FAULTS,
             spark="accepted"),
        Case('"0001-01-01T00:00:00+01:00"', {"STRING": "0001-01-01T00:00:00+01:00"},
             HAS_ZONE | {"TIMESTAMP": Fault.RANGE, "zone UTC": Fault.RANGE}),
        Case('"12026-01-01T00:00:00Z"', {"STRING": "12026-01-01T00:00:00Z"}, TEXT_FAULTS,
             spark="accepted"),
        Case("1764369135123", {
            "FLOAT": 1764369104896.0, "DOUBLE": 1764369135123.0, "BIGINT": 1764369135123,
            "TINYINT": Fault.RANGE, "DECIMAL(4,2)": Fault.INEXACT, "epoch s": Fault.RANGE,
            "epoch ms": _at(2025, 11, 28, 22, 32, 15, 123_000),
            "epoch ns": _at(1970, 1, 1, 0, 29, 24, 369_135), "epoch days": Fault.RANGE,
        }, spark="TIMESTAMP: seconds, the year 57880"),
    )),
    Section("Objects and arrays", (
        Case("{}", {"STRUCT<x: INT>": {"x": None}, "MAP<STRING, INT>": []}, spark="STRING: the text"),
        Case('{"x":1}', {"STRUCT<x: INT>": {"x": 1}, "MAP<STRING, INT>": [("x", 1)]},
             spark="STRING: the text"),
        Case('{"x":1,"y":null}', {"STRUCT<x: INT>": {"x": 1}, "MAP<STRING, INT>": [("x", 1), ("y", None)]}),
        Case('{"x":1,"x":1}', {}, {"STRUCT<x: INT>": Fault.TWICE, "MAP<STRING, INT>": Fault.TWICE},
             spark="STRUCT: the last; MAP: both"),
        Case('{"X":1}', {"STRUCT<x: INT>": {"x": None}, "MAP<STRING, INT>": [("X", 1)]}),
        Case('{"\\u0078":1}', {"STRUCT<x: INT>": {"x": 1}, "MAP<STRING, INT>": [("x", 1)]}),
        Case("[]", {"ARRAY<INT>": []}, spark="STRING: the text"),
        Case("[1,null]", {"ARRAY<INT>": [1, None]}, spark="STRING: the text"),
    )),
)  # fmt: skip
"""The table. Where a Fault stands among the values, the type refuses with it."""

CASES = tuple(case for section in SECTIONS for case in section.cases)


@dataclass(frozen=True)
class RecordCase:
    """A record as a whole, by the schema `id BIGINT`; `got` is its column or the fault."""

    record: bytes
    got: int | Fault | None
    note: str
    spark: str = ""


RECORDS = (
    RecordCase(b'{"id":1}', 1, "an object"),
    RecordCase(b' \t\r\n{ "id" : 1 } \n', 1, "white space between tokens"),
    RecordCase(b"{}", None, "a missing key is null"),
    RecordCase(b'{"ID":1}', None, "names are case-sensitive; an undeclared key is ignored"),
    RecordCase(b'{"id":1,"more":{"a":[1,{}]}}', 1, "an undeclared key's value is checked, not stored"),
    RecordCase(b"", Fault.EMPTY, "empty value", "null row"),
    RecordCase(b" \n", Fault.EMPTY, "only white space", "null row"),
    RecordCase(b"null", Fault.NOT_OBJECT, "not an object"),
    RecordCase(b"[1]", Fault.NOT_OBJECT, "not an object"),
    RecordCase(b"5", Fault.NOT_OBJECT, "not an object"),
    RecordCase(b'\xef\xbb\xbf{"id":1}', Fault.BYTE_ORDER_MARK, "byte order mark"),
    RecordCase('{"id":1}'.encode("utf-16-le"), Fault.SYNTAX, "UTF-16"),
    RecordCase('{"id":1}'.encode("utf-16"), Fault.NOT_OBJECT, "UTF-16 with its mark"),
    RecordCase(b'{"id":1}{"id":2}', Fault.TRAILING, "a second object", "the first"),
    RecordCase(b'{"id":1}\n{"id":2}', Fault.TRAILING, "a second line", "the first"),
    RecordCase(b'{"id":1}x', Fault.TRAILING, "text after the object", "accepted"),
    RecordCase(b'{"id":1', Fault.SYNTAX, "cut off"),
    RecordCase(b'{"id":1,}', Fault.SYNTAX, "a comma too many"),
    RecordCase(b'{"id":01}', Fault.SYNTAX, "a leading zero"),
    RecordCase(b'{"id":+1}', Fault.SYNTAX, "a plus sign"),
    RecordCase(b"{'id':1}", Fault.SYNTAX, "other quotes", "accepted"),
    RecordCase(b"{id:1}", Fault.SYNTAX, "no quotes"),
    RecordCase(b'{"id":1/**/}', Fault.SYNTAX, "a comment"),
    RecordCase(b'{"a":"\t"}', Fault.SYNTAX, "a control character in a string"),
    RecordCase(b'{"a":"\\x41"}', Fault.SYNTAX, "an escape that JSON does not have"),
    RecordCase(b'{"a":"\xff"}', Fault.UTF8, "invalid UTF-8, in any string", "U+FFFD"),
    RecordCase(b'{"a":"\xc0\x80"}', Fault.UTF8, "an overlong zero", "U+FFFD"),
    RecordCase(b'{"a":"\xed\xa0\x80"}', Fault.UTF8, "a surrogate in UTF-8", "U+FFFD"),
    RecordCase(b'{"a":"\\ud800"}', Fault.SURROGATE, "half of a surrogate pair", "`?`"),
    RecordCase(b'{"a":"\\udc00\\ud800"}', Fault.SURROGATE, "a pair in the wrong order", "`??`"),
    RecordCase(b'{"a":"\\udc00\\udc00"}', Fault.SURROGATE, "two second halves", "`??`"),
    RecordCase(b'{"id":1,"id":1}', Fault.TWICE, "a declared key twice", "the last"),
    RecordCase(b'{"a":1,"a":2}', None, "an undeclared key twice"),
    RecordCase(b'{"a":' + b"[" * 255 + b"]" * 255 + b"}", None, "256 open objects and arrays"),
    RecordCase(b'{"a":' + b"[" * 256 + b"]" * 256 + b"}", Fault.DEPTH, "257 open objects and arrays",
               "1,000"),
)  # fmt: skip
