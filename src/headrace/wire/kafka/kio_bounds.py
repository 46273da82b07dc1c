"""Validate a message by kio's schema before kio decodes it.

kio 0.6.5's native decoder allocates as many elements as an array announces: a frame of twenty bytes
makes it request gigabytes, and the failed allocation aborts the process. This validation proves
that each announced length fits into the remaining bytes. It also removes tagged fields that kio
does not know, and at which it would fail: a receiver must ignore them (KIP-482).
"""

import dataclasses
import types
import typing
from collections.abc import Callable
from typing import Any

from headrace.model.errors import Malformed
from headrace.wire.kafka.reader import CompactReader, Reader
from headrace.wire.kafka.writer import encode_uvarint

_FIXED_BYTES = {
    "int8": 1,
    "uint8": 1,
    "bool": 1,
    "int16": 2,
    "uint16": 2,
    "error_code": 2,
    "int32": 4,
    "uint32": 4,
    "timedelta_i32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
    "timedelta_i64": 8,
    "datetime_i64": 8,
    "uuid": 16,
}
_NULL_STRUCT = -1
_PRESENT_STRUCT = 1

Walk = Callable[[Reader], None]


class _Walker(CompactReader):
    """A reader that records which byte ranges to replace: begin, end, replacement."""

    __slots__ = ("cuts",)

    def __init__(self, view: memoryview, at: int = 0) -> None:
        super().__init__(view, at)
        self.cuts: list[tuple[int, int, bytes]] = []

    def result(self) -> memoryview:
        """Return the message with the replacements made; the original view if there are none."""
        if not self.cuts:
            return self.view
        parts: list[bytes | memoryview] = []
        at = 0
        for start, end, instead in self.cuts:
            parts += (self.view[at:start], instead)
            at = end
        parts.append(self.view[at:])
        return memoryview(b"".join(parts))


class _Shape(typing.NamedTuple):
    """How to skip a value, and its minimum size in bytes."""

    walk: Walk
    bytes_min: int


def check(entity_type: type[Any], body: memoryview) -> memoryview:
    """Return `body` without tagged fields that `entity_type` lacks.

    Malformed if an announced length or count exceeds the remaining bytes.
    """
    reader = _Walker(body) if entity_type.__flexible__ else Reader(body)
    _shape(entity_type).walk(reader)
    return reader.result() if isinstance(reader, _Walker) else body


def prepare(entity_type: type[Any]) -> None:
    """Prepare the validation of a class before its first `check`. Thread-safe."""
    _shape(entity_type)


def _shape(entity_type: type[Any]) -> _Shape:
    """Return the shape of a kio class, cached."""
    shape = _SHAPES.get(entity_type)
    if shape is None:
        shape = _SHAPES[entity_type] = _make_shape(entity_type)
    return shape


_SHAPES: dict[type[Any], _Shape] = {}


def _make_shape(entity_type: type[Any]) -> _Shape:
    flexible: bool = entity_type.__flexible__
    hints = typing.get_type_hints(entity_type)
    plain: list[Walk] = []
    tagged: dict[int, Walk] = {}
    bytes_min = 1 if flexible else 0
    for field in dataclasses.fields(entity_type):
        tag = field.metadata.get("tag")
        kafka_type = field.metadata.get("kafka_type")
        shape = _value(hints[field.name], kafka_type, flexible, nullable=tag is None)
        if tag is None:
            plain.append(shape.walk)
            bytes_min += shape.bytes_min
        else:
            tagged[tag] = shape.walk

    def walk(reader: Reader) -> None:
        for step in plain:
            step(reader)
        if isinstance(reader, _Walker):
            _walk_tags(reader, tagged)

    return _Shape(walk, bytes_min)


def _walk_tags(reader: _Walker, tagged: dict[int, Walk]) -> None:
    start, whole = reader.at, True
    known: list[bytes | memoryview] = []
    for number, field in reader.tags():
        if number not in tagged:
            whole = False
            continue
        tagged[number](field)
        # kio continues at the value's end, not at the announced end.
        if field.remaining():
            raise Malformed(f"tag {number} is shorter than announced")
        value = field.result()
        whole = whole and not field.cuts
        known += (encode_uvarint(number), encode_uvarint(len(value)), value)
    if not whole:
        instead = encode_uvarint(len(known) // 3) + b"".join(known)
        reader.cuts.append((start, reader.at, instead))


def _value(hint: Any, kafka_type: str | None, flexible: bool, *, nullable: bool) -> _Shape:  # noqa: ANN401
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        inner = next(arg for arg in typing.get_args(hint) if arg is not types.NoneType)
        if kafka_type is None and nullable and typing.get_origin(inner) is not tuple:
            return _nullable_struct(_shape(inner))
        if typing.get_origin(inner) is tuple:
            return _array_of(inner, kafka_type, flexible, nullable=True)
        return _value(inner, kafka_type, flexible, nullable=nullable)
    if typing.get_origin(hint) is tuple:
        return _array_of(hint, kafka_type, flexible, nullable=False)
    if kafka_type is None:
        return _shape(hint)
    if kafka_type in _FIXED_BYTES:
        return _fixed(_FIXED_BYTES[kafka_type])
    if kafka_type == "string":
        return _Shape(_skip_string, 1 if flexible else 2)
    return _Shape(_skip_bytes, 1 if flexible else 4)


def _skip_string(reader: Reader) -> None:
    reader.skip_string()


def _skip_bytes(reader: Reader) -> None:
    reader.nullable_bytes()


def _fixed(size: int) -> _Shape:
    def walk(reader: Reader) -> None:
        reader.skip(size)

    return _Shape(walk, size)


def _nullable_struct(shape: _Shape) -> _Shape:
    def walk(reader: Reader) -> None:
        marker = reader.int8()
        if marker == _PRESENT_STRUCT:
            shape.walk(reader)
        elif marker != _NULL_STRUCT:
            raise Malformed(f"a struct's marker is {marker}")

    return _Shape(walk, 1)


def _array_of(hint: Any, kafka_type: str | None, flexible: bool, *, nullable: bool) -> _Shape:  # noqa: ANN401
    element = _value(typing.get_args(hint)[0], kafka_type, flexible, nullable=False)
    fixed = None if kafka_type is None else _FIXED_BYTES.get(kafka_type)
    return _array(element, fixed, flexible, nullable=nullable)


def _array(element: _Shape, fixed: int | None, flexible: bool, *, nullable: bool) -> _Shape:
    def walk(reader: Reader) -> None:
        # kio would decode an illegal null as None, which no handler expects.
        announced = reader.nullable_count if nullable else reader.count
        count = announced(max(1, element.bytes_min))
        if fixed is not None:
            reader.skip(max(0, count) * fixed)
            return
        for _ in range(count):
            element.walk(reader)

    return _Shape(walk, 1 if flexible else 4)
