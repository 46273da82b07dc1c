"""Encode and decode messages by a table of their fields, in any version, to JSON-like dicts.

The model is Kafka's generated JsonConverters: fields in schema order, tagged fields only if they
differ from their default, UUIDs as text. Frequent records have hand-written codecs; tests prove
that both agree.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from headrace.model.errors import Malformed
from headrace.wire.kafka.reader import Reader, reader_of
from headrace.wire.kafka.writer import Writer, writer_of

_NEVER = 1 << 15


class Type(NamedTuple):
    """A field type: how its value is decoded and encoded in a message version."""

    read: Callable[[Reader, int], Any]
    write: Callable[[Writer, Any, int], None]


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a message: its JSON name, its type and the versions that have it."""

    name: str
    type: Type
    since: int = 0
    until: int = _NEVER
    tag: int | None = None
    default: Any = None
    """Default of a tagged field: this value is neither encoded nor shown."""


@dataclass(frozen=True, slots=True)
class MessageSchema:
    """A message: its fields in schema order, its latest version, and the first flexible one."""

    fields: Sequence[Field]
    latest: int = 0
    flexible_from: int = _NEVER

    def decode(self, data: "bytes | memoryview", version: int, at: int = 0) -> dict[str, Any]:
        """Decode the fields from byte `at` on to a dict by name. Raises Malformed."""
        if not 0 <= version <= self.latest:
            raise Malformed(f"version {version} is not known")
        reader = reader_of(version >= self.flexible_from)(memoryview(data), at)
        return _read_struct(self.fields, reader, version)

    def encode(self, fields: Mapping[str, Any], version: int, *, head: int | None = None) -> bytes:
        """Encode the fields in a version; `head`: an int16 before them, a key's type or value's
        version."""
        writer = writer_of(version >= self.flexible_from)()
        if head is not None:
            writer.int16(head)
        _write_struct(self.fields, writer, fields, version)
        return bytes(writer.out)


def record(*fields: Field) -> MessageSchema:
    """Define a message with one version, 0, which is flexible."""
    return MessageSchema(fields, 0, 0)


def _read_struct(fields: Sequence[Field], reader: Reader, version: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    tagged: dict[int, Field] = {}
    for field in fields:
        if field.tag is not None:
            tagged[field.tag] = field
        elif field.since <= version <= field.until:
            found[field.name] = field.type.read(reader, version)
    for tag, value in reader.tags():
        if tag in tagged:
            found[tagged[tag].name] = tagged[tag].type.read(value, version)
    return {
        field.name: found[field.name]
        for field in fields
        if field.name in found and (field.tag is None or found[field.name] != field.default)
    }


def _write_struct(
    fields: Sequence[Field], writer: Writer, values: Mapping[str, Any], version: int
) -> None:
    tags: list[tuple[int, bytes]] = []
    for field in fields:
        if not field.since <= version <= field.until:
            continue
        if field.tag is None:
            field.type.write(writer, values[field.name], version)
            continue
        value = values.get(field.name, field.default)
        if value != field.default:
            alone = type(writer)()
            field.type.write(alone, value, version)
            tags.append((field.tag, bytes(alone.out)))
    writer.tags(sorted(tags))


def array(item: Type) -> Type:
    """Define an array type."""

    def read(reader: Reader, version: int) -> list[Any]:
        return [item.read(reader, version) for _ in range(reader.count(1))]

    def write(writer: Writer, values: Sequence[Any], version: int) -> None:
        writer.count(len(values))
        for value in values:
            item.write(writer, value, version)

    return Type(read, write)


def nullable_array(item: Type) -> Type:
    """Define an array type that may be null."""
    plain = array(item)

    def read(reader: Reader, version: int) -> list[Any] | None:
        count = reader.nullable_count(1)
        return None if count < 0 else [item.read(reader, version) for _ in range(count)]

    def write(writer: Writer, values: Sequence[Any] | None, version: int) -> None:
        if values is None:
            writer.count(-1)
        else:
            plain.write(writer, values, version)

    return Type(read, write)


def struct(*fields: Field) -> Type:
    """Define a struct type with these fields."""
    return Type(
        lambda reader, version: _read_struct(fields, reader, version),
        lambda writer, values, version: _write_struct(fields, writer, values, version),
    )


def nullable_struct(*fields: Field) -> Type:
    """Define a struct type preceded by an int8: -1 for null, 1 for present."""
    inner = struct(*fields)

    def write(writer: Writer, values: Mapping[str, Any] | None, version: int) -> None:
        writer.int8(-1 if values is None else 1)
        if values is not None:
            inner.write(writer, values, version)

    return Type(
        lambda reader, version: None if reader.int8() < 0 else inner.read(reader, version), write
    )


def tagged_nullable_struct(*fields: Field) -> Type:
    """Define a nullable struct type for tagged fields, preceded by a varint: 0 for null."""
    inner = struct(*fields)

    def write(writer: Writer, values: Mapping[str, Any] | None, version: int) -> None:
        writer.uvarint(0 if values is None else 1)
        if values is not None:
            inner.write(writer, values, version)

    return Type(
        lambda reader, version: inner.read(reader, version) if reader.uvarint() else None, write
    )


class Uuid(bytes):
    """A UUID of 16 bytes, which JSON output shows as Kafka prints UUIDs."""


def _read_nullable_binary(reader: Reader, _version: int) -> bytes | None:
    found = reader.nullable_bytes()
    return None if found is None else bytes(found)


def _write_uint16(writer: Writer, value: int, _version: int) -> None:
    writer.int16(value - (1 << 16) if value >= 1 << 15 else value)


# Methods are looked up by name at each call, as the compact reader and writer override them.
boolean = Type(lambda reader, _: reader.boolean(), lambda writer, value, _: writer.boolean(value))
int8 = Type(lambda reader, _: reader.int8(), lambda writer, value, _: writer.int8(value))
int16 = Type(lambda reader, _: reader.int16(), lambda writer, value, _: writer.int16(value))
uint16 = Type(lambda reader, _: reader.int16() & 0xFFFF, _write_uint16)
int32 = Type(lambda reader, _: reader.int32(), lambda writer, value, _: writer.int32(value))
int64 = Type(lambda reader, _: reader.int64(), lambda writer, value, _: writer.int64(value))
uuid = Type(lambda reader, _: Uuid(reader.uuid()), lambda writer, value, _: writer.uuid(value))
string = Type(lambda reader, _: reader.string(), lambda writer, value, _: writer.string(value))
nullable_string = Type(
    lambda reader, _: reader.nullable_string(),
    lambda writer, value, _: writer.nullable_string(value),
)
binary = Type(lambda reader, _: bytes(reader.bytes()), lambda writer, value, _: writer.bytes(value))
nullable_binary = Type(_read_nullable_binary, lambda writer, value, _: writer.nullable_bytes(value))
int32s = Type(lambda reader, _: reader.int32s(), lambda writer, value, _: writer.int32s(value))
"""The type `array(int32)`, decoded in one call."""


def _write_nullable_int32s(writer: Writer, values: Sequence[int] | None, _version: int) -> None:
    if values is None:
        writer.count(-1)
    else:
        writer.int32s(values)


nullable_int32s = Type(nullable_array(int32).read, _write_nullable_int32s)
