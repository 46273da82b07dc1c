"""Decode the metrics that Kafka clients push: OpenTelemetry's MetricsData (KIP-714).

Only gauges and sums are decoded. Histograms, exemplars, resources and unknown fields are skipped,
as protocol buffers state each field's length. A parser of six small messages is smaller than the
libraries for them.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from headrace.model.errors import Malformed

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_VARINT_BYTES_MAX = 10
_DELTA = 1
_double = struct.Struct("<d").unpack_from
_sfixed = struct.Struct("<q").unpack_from
_fixed32 = struct.Struct("<I").unpack_from


class Point(NamedTuple):
    """A number that a client has pushed: its metric's name, attributes and value."""

    metric: str
    attributes: tuple[tuple[str, str], ...]
    value: float
    added: bool
    """Whether the value is an increment (a sum with delta temporality), not a total."""


def points(data: bytes | bytearray | memoryview) -> Iterator[Point]:
    """Yield all numbers in a MetricsData message. Raises Malformed."""
    for _, resource in _messages(memoryview(data), 1):
        for _, scope in _messages(resource, 2):
            for _, metric in _messages(scope, 2):
                yield from _metric(metric)


def _metric(view: memoryview) -> Iterator[Point]:
    name = ""
    bodies: list[tuple[bool, memoryview]] = []
    for number, value in _fields(view):
        if number == 1 and isinstance(value, memoryview):
            name = _text(value)
        elif number in (5, 7) and isinstance(value, memoryview):
            bodies.append((number == 7, value))
    for is_sum, body in bodies:
        delta = is_sum and any(pair == (2, _DELTA) for pair in _fields(body))
        for _, point in _messages(body, 1):
            yield _point(name, point, delta)


def _point(metric: str, view: memoryview, delta: bool) -> Point:
    value = 0.0
    attributes: list[tuple[str, str]] = []
    for number, raw in _fields(view, doubles=4):
        if number in (4, 6) and isinstance(raw, (int, float)):
            value = float(raw)
        elif number == 7 and isinstance(raw, memoryview):
            attributes.append(_pair(raw))
    return Point(metric, tuple(sorted(attributes)), value, delta)


def _pair(view: memoryview) -> tuple[str, str]:
    key, text = "", ""
    for number, value in _fields(view):
        if number == 1 and isinstance(value, memoryview):
            key = _text(value)
        elif number == 2 and isinstance(value, memoryview):
            text = _any(value)
    return key, text


def _any(view: memoryview) -> str:
    for number, value in _fields(view, doubles=4):
        if number == 1 and isinstance(value, memoryview):
            return _text(value)
        if number == 2:
            return "true" if value else "false"
        if number in (3, 4) and isinstance(value, (int, float)):
            return str(value)
    return ""


def _messages(view: memoryview, wanted: int) -> Iterator[tuple[int, memoryview]]:
    for number, value in _fields(view):
        if number == wanted and isinstance(value, memoryview):
            yield number, value


def _fields(view: memoryview, doubles: int = 0) -> Iterator[tuple[int, int | float | memoryview]]:
    """Yield number and value of each field in a message.

    64-bit fields numbered `doubles` are decoded as floats, others as integers.
    """
    at, end = 0, len(view)
    while at < end:
        tag, at = _varint(view, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = _varint(view, at)
            yield number, value
        elif kind == _BYTES:
            size, at = _varint(view, at)
            if size > end - at:
                raise Malformed("a field is longer than its message")
            yield number, view[at : at + size]
            at += size
        elif kind in (_FIXED64, _FIXED32):
            width = 8 if kind == _FIXED64 else 4
            if width > end - at:
                raise Malformed("a number is longer than its message")
            if kind == _FIXED32:
                yield number, _fixed32(view, at)[0]
            else:
                yield number, (_double if number == doubles else _sfixed)(view, at)[0]
            at += width
        else:
            raise Malformed(f"wire type {kind} is not used")


def _varint(view: memoryview, at: int) -> tuple[int, int]:
    number = shift = 0
    for _ in range(_VARINT_BYTES_MAX):
        if at >= len(view):
            raise Malformed("a number ends early")
        byte = view[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
    raise Malformed("a number has no end")


def _text(view: memoryview) -> str:
    try:
        return str(view, "utf-8")
    except UnicodeDecodeError:
        raise Malformed("a text is no UTF-8") from None
