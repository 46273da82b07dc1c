"""Types of a typed topic's columns: Spark's, as far as JSON can hold them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

DECIMAL_DIGITS_MAX = 38
DEPTH_MAX = 256
"""Bound on open objects and arrays in a record; 1,000 in Spark's parser and in json.loads."""


class Kind(IntEnum):
    """A type's name; the numbers are those of the compiled schema program."""

    STRUCT = 0
    ARRAY = 1
    MAP = 2
    STRING = 3
    BOOLEAN = 4
    TINYINT = 5
    SMALLINT = 6
    INT = 7
    BIGINT = 8
    DOUBLE = 9
    FLOAT = 10
    DECIMAL = 11
    TIMESTAMP = 12
    TIMESTAMP_NTZ = 13
    DATE = 14
    BINARY = 15


class Unit(IntEnum):
    """How a time is written: as ISO 8601 text, or as a number of units since 1970."""

    ISO = 0
    ISO_UTC = 1
    """Text without a zone is accepted, as UTC."""
    SECONDS = 2
    MILLIS = 3
    MICROS = 4
    NANOS = 5
    DAYS = 6


@dataclass(frozen=True)
class ColumnType:
    """A type with its parameters and parts."""

    kind: Kind
    precision: int = 0
    scale: int = 0
    unit: Unit = Unit.ISO
    fields: tuple[Field, ...] = ()
    """Of a STRUCT."""
    element: Field | None = None
    """Of an ARRAY its element, of a MAP its value. Keys of a MAP are STRING."""

    def __str__(self) -> str:
        """Return the type in Spark's DDL."""
        match self.kind:
            case Kind.DECIMAL:
                return f"DECIMAL({self.precision},{self.scale})"
            case Kind.STRUCT:
                return f"STRUCT<{', '.join(map(str, self.fields))}>"
            case Kind.ARRAY:
                return f"ARRAY<{self.part.type}>"
            case Kind.MAP:
                return f"MAP<STRING, {self.part.type}>"
        return self.kind.name

    @property
    def part(self) -> Field:
        """The element of an ARRAY or the value of a MAP."""
        if self.element is None:
            raise TypeError(f"{self.kind.name} has no element")
        return self.element

    def with_unit(self, unit: Unit) -> ColumnType:
        """Return this type with `unit` for its times: its own, or those of its elements."""
        if self.element is not None:
            element = replace(self.element, type=self.element.type.with_unit(unit))
            return replace(self, element=element)
        return replace(self, unit=unit) if self.kind in UNITS else self


@dataclass(frozen=True)
class Field:
    """A column, or a part of one."""

    name: str
    type: ColumnType
    nullable: bool = True

    def __str__(self) -> str:
        """Return the field as it stands in a STRUCT of Spark's DDL."""
        name = self.name if self.name.isidentifier() else f"`{self.name.replace('`', '``')}`"
        return f"{name}: {self.type}{'' if self.nullable else ' NOT NULL'}"


UNITS: dict[Kind, frozenset[Unit]] = {
    Kind.TIMESTAMP: frozenset(Unit) - {Unit.DAYS},
    Kind.TIMESTAMP_NTZ: frozenset({Unit.ISO}),
    Kind.DATE: frozenset({Unit.ISO, Unit.DAYS}),
}
"""The units that a type of time may be declared with."""

INTEGERS = {Kind.TINYINT: 8, Kind.SMALLINT: 16, Kind.INT: 32, Kind.BIGINT: 64}
"""Integer types and their bits."""
