"""Typed rows: the fields of the values by a schema, then columns of the record.

A record without a value (a tombstone) is a row whose fields are null. So fields are nullable in a
row's schema even if the declared schema says NOT NULL, which the decoder checks.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Protocol, Self

import numpy as np
import pyarrow as pa

from headrace.arrow.read.columns import NEVER_NULL, TYPES
from headrace.arrow.typed.arrow_types import arrow_schema
from headrace.arrow.typed.decoder import FunctionFailedError, TypedRows, ValueDecoder, WrongRowError
from headrace.arrow.typed.json_decoder import JsonDecoder
from headrace.model.errors import HeadraceError
from headrace.typed.ddl import SchemaError, parse_ddl
from headrace.typed.types import ColumnType, Kind

RECORD_COLUMNS = ("partition", "offset", "timestamp")
"""The default columns of the record."""
PREFIX = "_"
CORRUPT = "_corrupt_record"
OFFSET, VALUE = "offset", "value"


class RefusedRecordError(HeadraceError):
    """A record's value does not fit the schema; the text names partition, offset and reason."""

    def __init__(self, place: str, offset: int, words: str) -> None:
        super().__init__(f"{place}@{offset}: {words}")
        self.offset = offset


class DecoderError(HeadraceError):
    """A decoder failed at a record; the text names partition and offset."""

    def __init__(self, place: str, offset: int, words: str) -> None:
        super().__init__(f"{place}@{offset}: {words}")


class Mode(Enum):
    """Outcomes of a refused value, by Spark's names."""

    FAILFAST = "failfast"
    PERMISSIVE = "permissive"
    DROPMALFORMED = "dropmalformed"
    QUARANTINE = "quarantine"
    """Ours: no row, and the caller gets the refused record."""


_WITHOUT_ROW = frozenset({Mode.DROPMALFORMED, Mode.QUARANTINE})
OnUnknown = Callable[[Mapping[str, int]], None]
OnRefused = Callable[[TypedRows, pa.RecordBatch], None]
"""Called with decoded values, some of which are refused, and the records that they are from."""


class Decoding(Protocol):
    """How values become fields, and what happens to those that are refused."""

    @property
    def ddl(self) -> str:
        """The declared fields."""

    @property
    def mode(self) -> Mode:
        """The outcome of a refused value."""

    @property
    def corrupt(self) -> str:
        """The field that has a refused value's text, if `has_corrupt`."""

    @property
    def on_unknown(self) -> OnUnknown | None:
        """Gets the undeclared keys of a task by name; None: they are not counted."""

    def decoder(self) -> ValueDecoder:
        """Return a decoder, for one thread."""

    def has_corrupt(self) -> bool:
        """Return whether rows have the field for refused values."""

    def schema(self, columns: Sequence[str]) -> pa.Schema:
        """Return the Arrow schema of a row, with these columns of the record."""


@dataclass(frozen=True)
class TypedValues:
    """How values in JSON are decoded."""

    ddl: str
    mode: Mode = Mode.FAILFAST
    corrupt: str = CORRUPT
    """With PERMISSIVE: the STRING field that has a refused value's text, if the schema has it."""
    on_unknown: OnUnknown | None = None
    """Called at the end of a range with the keys that the schema does not declare, by name."""

    def fields(self) -> ColumnType:
        """Return the fields that are decoded."""
        schema = parse_ddl(self.ddl)
        return ColumnType(
            Kind.STRUCT,
            fields=tuple(field for field in schema.fields if not self._is_corrupt(field.name)),
        )

    def decoder(self) -> ValueDecoder:
        """Return a decoder, for one thread."""
        return JsonDecoder(self.fields())

    def checked(self, columns: Sequence[str]) -> Self:
        """Return self; raise SchemaError if the schema is invalid or does not fit these columns of
        the record."""
        if not self.fields().fields:
            raise SchemaError("no field but the column for refused values")
        for field in parse_ddl(self.ddl).fields:
            if field.name in {PREFIX + name for name in columns}:
                raise SchemaError(f"{field.name} is a column of the record: see columns")
            if self._is_corrupt(field.name) and field.type.kind is not Kind.STRING:
                raise SchemaError(f"{field.name} {field.type}: it must be STRING")
        return self

    def has_corrupt(self) -> bool:
        """Return whether rows have the field for refused values."""
        return any(self._is_corrupt(field.name) for field in parse_ddl(self.ddl).fields)

    def _is_corrupt(self, name: str) -> bool:
        return self.mode is Mode.PERMISSIVE and name == self.corrupt

    def row_type(self) -> ColumnType:
        """Return the fields of a row, all of them nullable: those of a refused value are null."""
        schema = parse_ddl(self.ddl)
        fields = tuple(replace(field, nullable=True) for field in schema.fields)
        return ColumnType(Kind.STRUCT, fields=fields)

    def schema(self, columns: Sequence[str]) -> pa.Schema:
        """Return the Arrow schema of a row."""
        fields = list(arrow_schema(self.row_type()))
        record = [pa.field(PREFIX + name, TYPES[name], name not in NEVER_NULL) for name in columns]
        return pa.schema([*fields, *record])


class TypedRanges:
    """Makes typed rows of one task's RecordBatches, which have `value`, `offset` and `columns`."""

    def __init__(
        self,
        typed: Decoding,
        columns: Sequence[str],
        place: str,
        on_refused: OnRefused | None = None,
    ) -> None:
        """Make the decoder. `on_refused`: called with QUARANTINE for values that are refused."""
        self._typed = typed
        self._on_refused = on_refused
        self._columns = columns
        self._place = place
        self._schema = typed.schema(columns)
        self._decoder = typed.decoder()
        self._has_corrupt = typed.has_corrupt()

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of each RecordBatch."""
        for batch in batches:
            yield self._rows(batch)
        if self._typed.on_unknown is not None and self._decoder.unknown_names:
            self._typed.on_unknown(self._decoder.unknown_names)

    def _rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        values = batch.column(VALUE)
        decoded, rows, refused = [], [np.zeros(0, np.int64)], []
        for piece in self._pieces(batch):
            self._check(piece, batch)
            decoded.append(piece.batch)
            rows.append(piece.rows)
            refused.append(piece.refused.numbers())
        table = pa.Table.from_batches(decoded, self._decoder.arrow_schema).combine_chunks()
        fields = {
            name: _chunk(column)
            for name, column in zip(table.column_names, table.columns, strict=True)
        }
        # Values are the largest column: rows are filtered without them.
        batch = batch.select(self._columns)
        place = np.full(len(batch), -1)
        place[np.concatenate(rows)] = np.arange(len(table))
        bad = np.zeros(len(batch), np.bool_)
        bad[np.concatenate([np.zeros(0, np.int64), *refused])] = True
        if self._typed.mode in _WITHOUT_ROW and bad.any():
            batch, place = batch.filter(pa.array(~bad)), place[~bad]
        if len(table) < len(place):
            index = pa.array(place, mask=place < 0)
            fields = {name: column.take(index) for name, column in fields.items()}
        if self._has_corrupt:
            fields[self._typed.corrupt] = _texts(values, bad)
        # The topic may be dictionary-encoded.
        columns = {PREFIX + name: batch.column(name).cast(TYPES[name]) for name in self._columns}
        return pa.RecordBatch.from_arrays(
            [(fields | columns)[name] for name in self._schema.names], schema=self._schema
        )

    def _pieces(self, batch: pa.RecordBatch) -> Iterator[TypedRows]:
        try:
            yield from self._decoder.decode(batch.column(VALUE))
        except WrongRowError as error:
            offset = batch.column(OFFSET)[error.row].as_py()
            raise DecoderError(self._place, offset, str(error)) from None
        except FunctionFailedError as failure:
            offset = batch.column(OFFSET)[failure.row].as_py()
            failed = failure.error
            failed.add_note(f"(record {self._place}@{offset})")
        else:
            return
        # Not within the handler: the traceback ends with the function's own lines.
        raise failed

    def _check(self, piece: TypedRows, batch: pa.RecordBatch) -> None:
        """Raise RefusedRecordError for a refused value that ends the read; pass on others."""
        if self._typed.mode is Mode.FAILFAST:
            for refused in piece.refused:
                offset = batch.column(OFFSET)[refused.row].as_py()
                raise RefusedRecordError(self._place, offset, refused.words)
        if self._on_refused is not None and len(piece.refused):
            self._on_refused(piece, batch)


def _chunk(column: pa.ChunkedArray) -> pa.Array:
    chunks = column.chunks
    return chunks[0] if chunks else pa.array([], column.type)


def columns_to_read(columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that `TypedRanges` needs for rows with these columns of the record."""
    return tuple(dict.fromkeys((VALUE, OFFSET, *columns)))


def _texts(values: pa.Array, bad: np.ndarray[Any, Any]) -> pa.Array:
    """Return the text of refused values, else null; bytes that are not UTF-8 become U+FFFD."""
    refused = values.filter(pa.array(bad))
    try:
        texts = refused.cast(pa.string())
    except pa.ArrowInvalid:
        decoded = [value.decode("utf-8", "replace") for value in refused.to_pylist()]
        texts = pa.array(decoded, pa.string())
    return texts.take(pa.array(np.cumsum(bad) - 1, mask=~bad))
