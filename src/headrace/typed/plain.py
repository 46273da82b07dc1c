"""Decode a typed topic's JSON in plain Python: the twin of the kernel, and the tests' judge.

`json.loads` decides whether a record is JSON. Then the text is read once more, now known to be
valid, so that each value has its place. The type table is applied to these placed values.
"""

from __future__ import annotations

import binascii
import json
import math
import re
import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from headrace.typed.refusal import Fault, Refusal
from headrace.typed.types import DEPTH_MAX, INTEGERS, ColumnType, Kind, Unit

if TYPE_CHECKING:
    from collections.abc import Callable

Scalar = str | int | float | bool | bytes | Decimal | date | datetime | None
Value = Scalar | dict[str, "Value"] | list["Value"] | list[tuple[str, "Value"]]
"""A decoded value; a MAP is a list of pairs."""

NOT_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""The tokens that Python's and Java's encoders write for doubles that JSON does not have."""
NOT_NUMBER_TEXTS = NOT_NUMBERS | {"+Infinity": math.inf, "+INF": math.inf, "-INF": -math.inf}
"""The same as strings, as Spark reads them."""

_BLANK = b" \t\r\n"
_MARK = b"\xef\xbb\xbf"
_TOKEN = re.compile(r'[ \t\r\n]*("(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^ \t\r\n{}\[\]:,"]+)', re.DOTALL)
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)
_NUMBER = re.compile(r"(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?")
_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]+))?)?"
    r"(Z|([+-])([0-9]{2})(?::?([0-9]{2}))?)?)?"
)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_BASE64 = re.compile(
    r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"
)  # fmt: skip
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_OFFSET_MINUTES_MAX = 18 * 60
_EXPONENT_DIGITS_MAX = 9
_DIGITS = {Unit.SECONDS: 6, Unit.MILLIS: 3, Unit.MICROS: 0, Unit.NANOS: -3}
"""Decimal digits from a unit to microseconds."""


class _Refused(Exception):
    def __init__(self, fault: Fault, path: str, at: int) -> None:
        super().__init__(fault, path, at)
        self.refusal = (fault, path, at)


class _Placed(NamedTuple):
    """A value of a valid text and its place, in characters."""

    at: int
    end: int
    word: str
    """A scalar's text; `{` or `[`."""
    members: tuple[tuple[int, str, _Placed], ...] = ()
    """Of an object: the key's place, the key, the value. Of an array: 0, "", the value."""


def decode_record(value: bytes, schema: ColumnType) -> dict[str, Value] | Refusal:
    """Return the columns of a record by the STRUCT `schema`, or why it is refused."""
    blank = len(value) - len(value.lstrip(_BLANK))
    if blank == len(value):
        return Refusal(Fault.EMPTY, "", 0)
    if value.startswith(_MARK):
        return Refusal(Fault.BYTE_ORDER_MARK, "", 0)
    if value[blank] != ord("{"):
        return Refusal(Fault.NOT_OBJECT, "", blank)
    try:
        text = value.decode()
    except UnicodeDecodeError as error:
        return Refusal(Fault.UTF8, "", error.start)
    try:
        return _struct(_placed(text), schema, "")
    except _Refused as error:
        fault, path, at = error.refusal
        return Refusal(fault, path, len(text[:at].encode("utf-8", "surrogatepass")))


def _placed(text: str) -> _Placed:
    """Return the text's value with places; raise `_Refused` unless it is valid JSON."""
    depth = 0
    for found in _BRACKETS.finditer(text):
        depth += (found[0] in "{[") - (found[0] in "}]")
        if depth > DEPTH_MAX:
            raise _Refused(Fault.DEPTH, "", found.start())
    try:
        json.loads(text, parse_int=str, parse_float=str)
    except json.JSONDecodeError as error:
        fault = Fault.TRAILING if error.msg == "Extra data" else Fault.SYNTAX
        raise _Refused(fault, "", error.pos) from None
    placed, _ = _read(text, 0)
    return placed


def _read(text: str, at: int) -> tuple[_Placed, int]:
    """Return the value at `at` of a valid text, and the place after it."""
    begin, at, word = _word(text, at)
    if word not in "{[":
        if word[0] == '"':
            _check_text(word, begin)
        return _Placed(begin, at, word), at
    members = []
    closing = "}" if word == "{" else "]"
    place, after, mark = _word(text, at)
    while mark != closing:
        if mark == ",":
            place, after, mark = _word(text, after)
            continue
        key = ""
        if word == "{":
            key = _check_text(mark, place)
            _, at, _ = _word(text, after)
        else:
            at = place
        member, after = _read(text, at)
        members.append((place, key, member))
        place, after, mark = _word(text, after)
    return _Placed(begin, after, word, tuple(members)), after


def _word(text: str, at: int) -> tuple[int, int, str]:
    found = _TOKEN.match(text, at)
    if found is None:
        raise _Refused(Fault.SYNTAX, "", at)
    return found.start(1), found.end(), found[1]


def _check_text(word: str, at: int) -> str:
    text: str = json.loads(word)
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise _Refused(Fault.SURROGATE, "", at)
    return text


def _struct(placed: _Placed, schema: ColumnType, path: str) -> dict[str, Value]:
    known = {field.name: field for field in schema.fields}
    row: dict[str, Value] = {}
    for at, name, member in placed.members:
        if (field := known.get(name)) is None:
            continue
        inner = f"{path}.{name}" if path else name
        if name in row:
            raise _Refused(Fault.TWICE, inner, at)
        row[name] = _value(member, field.type, inner, field.nullable)
    for field in schema.fields:
        if field.name not in row and not field.nullable:
            missing = f"{path}.{field.name}" if path else field.name
            raise _Refused(Fault.MISSING, missing, placed.end - 1)
    return {field.name: row.get(field.name) for field in schema.fields}


def _value(placed: _Placed, column: ColumnType, path: str, nullable: bool = True) -> Value:
    """Return a value by the type table."""
    word = placed.word
    if word == "null":
        if not nullable:
            raise _Refused(Fault.NULL, path, placed.at)
        return None
    if column.kind in {Kind.STRUCT, Kind.MAP} and word == "{":
        return _struct(placed, column, path) if column.fields else _map(placed, column, path)
    if column.kind is Kind.ARRAY and word == "[":
        part = column.part
        members = placed.members
        return [_value(member, part.type, f"{path}[]", part.nullable) for _, _, member in members]
    decoded = _SCALARS[column.kind](word, column) if column.kind in _SCALARS else Fault.TYPE
    if isinstance(decoded, Fault):
        raise _Refused(decoded, path, placed.at)
    return decoded


def _map(placed: _Placed, column: ColumnType, path: str) -> list[tuple[str, Value]]:
    pairs: dict[str, Value] = {}
    for at, key, member in placed.members:
        if key in pairs:
            raise _Refused(Fault.TWICE, f"{path}[]", at)
        pairs[key] = _value(member, column.part.type, f"{path}[]", column.part.nullable)
    return list(pairs.items())


def _text(word: str) -> str | None:
    """Return the content of a string; None for any other word."""
    return str(json.loads(word)) if word[0] == '"' else None


def _string(word: str, column: ColumnType) -> Scalar | Fault:
    text = _text(word)
    return Fault.TYPE if text is None else text


def _boolean(word: str, column: ColumnType) -> Scalar | Fault:
    return {"true": True, "false": False}.get(word, Fault.TYPE)


def _integer(word: str, column: ColumnType) -> Scalar | Fault:
    found = _NUMBER.fullmatch(word)
    if found is None or found[3] is not None or found[4] is not None:
        return Fault.TYPE
    bound = 1 << (INTEGERS[column.kind] - 1)
    number = int(word) if len(word) <= len(str(-bound)) else bound
    return number if -bound <= number < bound else Fault.RANGE


def _double(word: str, column: ColumnType) -> Scalar | Fault:
    text = _text(word)
    if text is not None:
        return NOT_NUMBER_TEXTS.get(text, Fault.TYPE)
    if word in NOT_NUMBERS:
        return NOT_NUMBERS[word]
    if _NUMBER.fullmatch(word) is None:
        return Fault.TYPE
    number = float(word)
    return Fault.RANGE if math.isinf(number) else number


def _float(word: str, column: ColumnType) -> Scalar | Fault:
    """Return the nearest float of the nearest double."""
    number = _double(word, column)
    if not isinstance(number, float):
        return number
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return Fault.RANGE
    return rounded


def _decimal(word: str, column: ColumnType) -> Scalar | Fault:
    text = _text(word)
    found = _NUMBER.fullmatch(word if text is None else text)
    if found is None:
        return Fault.TYPE
    sign, whole, fraction, exponent = found[1], found[2], found[3] or "", found[4] or "0"
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return Decimal(0).scaleb(-column.scale)
    if len(exponent.lstrip("+-0")) > _EXPONENT_DIGITS_MAX:
        return Fault.INEXACT
    shift = int(exponent) - len(fraction) + column.scale
    """Zeros to append to the digits for the unscaled number; negative: to remove."""
    if shift < 0 and digits[shift:].strip("0"):
        return Fault.INEXACT
    if len(digits) + shift > column.precision:
        return Fault.INEXACT
    unscaled = digits + "0" * shift if shift >= 0 else digits[:shift]
    return Decimal((int(sign == "-"), tuple(map(int, unscaled or "0")), -column.scale))


def _date(word: str, column: ColumnType) -> Scalar | Fault:
    if column.unit is Unit.DAYS:
        days = _integer(word, ColumnType(Kind.BIGINT))
        if isinstance(days, Fault) or not isinstance(days, int):
            return days
        first, last = date.min.toordinal(), date.max.toordinal()
        in_range = first <= days + _EPOCH_DAY <= last
        return date.fromordinal(days + _EPOCH_DAY) if in_range else Fault.RANGE
    text = _text(word)
    if text is None:
        return Fault.TYPE
    try:
        return date.fromisoformat(text) if _DATE.fullmatch(text) else Fault.TIME
    except ValueError:
        return Fault.TIME


def _time(word: str, column: ColumnType) -> Scalar | Fault:
    if column.unit not in {Unit.ISO, Unit.ISO_UTC}:
        return _since_1970(word, column)
    text = _text(word)
    found = _TIME.fullmatch(text) if text is not None else None
    if found is None:
        return Fault.TYPE if text is None else Fault.TIME
    day, hours, minutes, seconds, fraction, zone = found.groups()[:6]
    sign, ahead, ahead_minutes = found.groups()[6:]
    offset = 60 * int(ahead or 0) + int(ahead_minutes or 0)
    try:
        local = datetime.combine(
            date.fromisoformat(day), datetime.min.time(), tzinfo=UTC
        ).replace(
            hour=int(hours or 0), minute=int(minutes or 0), second=int(seconds or 0),
            microsecond=int((fraction or "")[:6].ljust(6, "0")),
        )  # fmt: skip
    except ValueError:
        return Fault.TIME
    if offset > _OFFSET_MINUTES_MAX or int(ahead_minutes or 0) > 59:
        return Fault.TIME
    if column.kind is Kind.TIMESTAMP_NTZ:
        return Fault.ZONE if zone else local.replace(tzinfo=None)
    if not zone and column.unit is Unit.ISO:
        return Fault.NO_ZONE
    try:
        return local - timedelta(minutes=offset if sign == "+" else -offset)
    except OverflowError:
        return Fault.RANGE


def _since_1970(word: str, column: ColumnType) -> Scalar | Fault:
    found = _NUMBER.fullmatch(word)
    if found is None or found[4] is not None:
        return Fault.TYPE
    sign, whole, fraction, _ = found.groups()
    if len(whole) > 19 or int(whole) >= 1 << 63:
        return Fault.RANGE
    digits, kept = _DIGITS[column.unit], (fraction or "").rstrip("0")
    number = int(sign + whole + kept)
    shift = digits - len(kept)
    # Floor division: what is finer than a microsecond is cut off towards the past.
    micros = number * 10**shift if shift >= 0 else number // 10**-shift
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return Fault.RANGE


def _binary(word: str, column: ColumnType) -> Scalar | Fault:
    text = _text(word)
    if text is None or _BASE64.fullmatch(text) is None:
        return Fault.TYPE
    return binascii.a2b_base64(text)


_INTEGERS: dict[Kind, Callable[[str, ColumnType], Scalar | Fault]] = dict.fromkeys(
    INTEGERS, _integer
)
_SCALARS = _INTEGERS | {
    Kind.STRING: _string,
    Kind.BOOLEAN: _boolean,
    Kind.DOUBLE: _double,
    Kind.FLOAT: _float,
    Kind.DECIMAL: _decimal,
    Kind.TIMESTAMP: _time,
    Kind.TIMESTAMP_NTZ: _time,
    Kind.DATE: _date,
    Kind.BINARY: _binary,
}
