"""Messages read by a table of their fields, for tools: any version, as Kafka's own JSON has them.

Kafka's generated JsonConverters are the model: fields in the order of the schema, tagged ones only
where they differ from their default, uuids as text. The hot records have readers of their own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.model.errors import Malformed
from headrace.wire.kafka.reader import Reader, reader_of

Read = Callable[[Reader, int], Any]
_NEVER = 1 << 15


@dataclass(frozen=True, slots=True)
class Field:
    """A field: its name in JSON, how it is read, the versions that have it."""

    name: str
    read: Read
    since: int = 0
    until: int = _NEVER
    tag: int | None = None
    default: Any = None
    """Of a tagged field: the value that is not printed."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message: its fields in the schema's order, and which versions there are."""

    fields: Sequence[Field]
    latest: int = 0
    flexible_from: int = _NEVER

    def decode(self, data: "bytes | memoryview", version: int, at: int = 0) -> dict[str, Any]:
        """The fields from byte `at` on. Malformed."""
        if not 0 <= version <= self.latest:
            raise Malformed(f"version {version} is not known")
        return _struct(
            self.fields, reader_of(version >= self.flexible_from)(memoryview(data), at), version
        )


def record(*fields: Field) -> Message:
    """A message of one version, a flexible one."""
    return Message(fields, 0, 0)


def _struct(fields: Sequence[Field], reader: Reader, version: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    tagged: dict[int, Field] = {}
    for field in fields:
        if field.tag is not None:
            tagged[field.tag] = field
        elif field.since <= version <= field.until:
            found[field.name] = field.read(reader, version)
    for tag, value in reader.tags():
        if tag in tagged:
            found[tagged[tag].name] = tagged[tag].read(value, version)
    return {
        field.name: found[field.name]
        for field in fields
        if field.name in found and (field.tag is None or found[field.name] != field.default)
    }


def array(read: Read) -> Read:
    """A list of what `read` reads."""
    return lambda reader, version: [read(reader, version) for _ in range(reader.count(1))]


def nullable_array(read: Read) -> Read:
    """A list or None."""

    def read_array(reader: Reader, version: int) -> list[Any] | None:
        count = reader.nullable_count(1)
        return None if count < 0 else [read(reader, version) for _ in range(count)]

    return read_array


def struct(*fields: Field) -> Read:
    """Fields within fields."""
    return lambda reader, version: _struct(fields, reader, version)


def nullable_struct(*fields: Field) -> Read:
    """A struct behind a byte that says whether there is one."""
    inner = struct(*fields)
    return lambda reader, version: None if reader.int8() < 0 else inner(reader, version)


def tagged_nullable_struct(*fields: Field) -> Read:
    """The same in a tagged field, where a varint says it: 0 for none."""
    inner = struct(*fields)
    return lambda reader, version: inner(reader, version) if reader.uvarint() else None


def int8(reader: Reader, _version: int) -> int:
    return reader.int8()


def int16(reader: Reader, _version: int) -> int:
    return reader.int16()


def uint16(reader: Reader, _version: int) -> int:
    return reader.int16() & 0xFFFF


def int32(reader: Reader, _version: int) -> int:
    return reader.int32()


def int64(reader: Reader, _version: int) -> int:
    return reader.int64()


def uuid(reader: Reader, _version: int) -> "Uuid":
    return Uuid(reader.uuid())


def string(reader: Reader, _version: int) -> str:
    return reader.string()


def nullable_string(reader: Reader, _version: int) -> str | None:
    return reader.nullable_string()


def binary(reader: Reader, _version: int) -> bytes:
    return bytes(reader.bytes())


def nullable_binary(reader: Reader, _version: int) -> bytes | None:
    found = reader.nullable_bytes()
    return None if found is None else bytes(found)


class Uuid(bytes):
    """Sixteen bytes that are printed as Kafka prints a uuid."""
