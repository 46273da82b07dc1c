"""Typed rows of the source: the values' fields by `valueSchema`, then columns of the record.

A record without a value (a tombstone) is a row whose fields are null, as from_json gives it. So
fields are nullable for Spark even if the schema says NOT NULL, which the decoder checks.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from headrace.arrow.read.columns import NEVER_NULL, TYPES
from headrace.arrow.typed.arrow_types import arrow_schema
from headrace.arrow.typed.json_decoder import JsonDecoder, TypedRows
from headrace.spark.errors import OptionError, SourceError
from headrace.spark.given_options import GivenOptions
from headrace.typed.ddl import SchemaError, parse_ddl
from headrace.typed.types import ColumnType, Kind

RECORD_COLUMNS = ("partition", "offset", "timestamp")
"""Columns of the record after the fields, unless `columns` names others."""
PREFIX = "_"
CORRUPT = "_corrupt_record"
OFFSET, VALUE = "offset", "value"


class Mode(Enum):
    """Outcomes of a refused value, by Spark's names."""

    FAILFAST = "failfast"
    PERMISSIVE = "permissive"
    DROPMALFORMED = "dropmalformed"


@dataclass(frozen=True)
class TypedValues:
    """How values are decoded."""

    ddl: str
    mode: Mode = Mode.FAILFAST
    corrupt: str = CORRUPT
    """With PERMISSIVE: the STRING field that has a refused value's text, if the schema has it."""

    def fields(self) -> ColumnType:
        """Return the fields that are decoded."""
        schema = parse_ddl(self.ddl)
        return ColumnType(
            Kind.STRUCT,
            fields=tuple(field for field in schema.fields if not self._is_corrupt(field.name)),
        )

    def has_corrupt(self) -> bool:
        """Return whether rows have the field for refused values."""
        return any(self._is_corrupt(field.name) for field in parse_ddl(self.ddl).fields)

    def _is_corrupt(self, name: str) -> bool:
        return self.mode is Mode.PERMISSIVE and name == self.corrupt

    def schema(self, columns: Sequence[str]) -> pa.Schema:
        """Return the Arrow schema of a row."""
        fields = [field.with_nullable(True) for field in arrow_schema(parse_ddl(self.ddl))]
        record = [pa.field(PREFIX + name, TYPES[name], name not in NEVER_NULL) for name in columns]
        return pa.schema([*fields, *record])


def given_typed(given: GivenOptions, columns: Sequence[str]) -> TypedValues | None:
    """Return how the options say that values are decoded; None without `valueSchema`."""
    ddl = given.text("valueSchema")
    if ddl is None:
        for name in ("mode", "columnNameOfCorruptRecord"):
            if name in given:
                raise OptionError(f"{name}: only with valueSchema")
        return None
    modes = {mode.value: mode for mode in Mode}
    typed = TypedValues(
        ddl,
        given.choice("mode", modes, Mode.FAILFAST),
        given.text("columnNameOfCorruptRecord") or CORRUPT,
    )
    try:
        schema = parse_ddl(ddl)
    except SchemaError as error:
        raise OptionError(f"valueSchema: {error}") from None
    if not typed.fields().fields:
        raise OptionError("valueSchema: no field besides the one for refused values")
    for field in schema.fields:
        if field.name in {PREFIX + name for name in columns}:
            raise OptionError(f"valueSchema: {field.name} is a column of the record: see columns")
        if field.name == typed.corrupt and field.type.kind is not Kind.STRING:
            raise OptionError(f"valueSchema: {field.name} {field.type}: it must be STRING")
    return typed


def typed_row_schema(typed: TypedValues, columns: Sequence[str]) -> StructType:
    """Return the Spark schema of typed rows."""
    return from_arrow_schema(typed.schema(columns), prefer_timestamp_ntz=True)


class TypedRanges:
    """Makes typed rows of one task's RecordBatches, which have `value`, `offset` and `columns`."""

    def __init__(self, typed: TypedValues, columns: Sequence[str], place: str) -> None:
        self._typed = typed
        self._columns = columns
        self._place = place
        self._schema = typed.schema(columns)
        self._decoder = JsonDecoder(typed.fields())
        self._has_corrupt = typed.has_corrupt()

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of each RecordBatch."""
        for batch in batches:
            yield self._rows(batch)

    def _rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        values = batch.column(VALUE)
        pieces = self._decoder.decode(values)
        decoded, rows, refused = [], [np.zeros(0, np.int64)], []
        for piece in pieces:
            self._check(piece, batch)
            decoded.append(piece.batch)
            rows.append(piece.rows)
            refused.append(piece.refused.numbers())
        table = pa.Table.from_batches(decoded, self._decoder.arrow_schema).combine_chunks()
        fields = {
            name: _chunk(column)
            for name, column in zip(table.column_names, table.columns, strict=True)
        }
        place = np.full(len(batch), -1)
        place[np.concatenate(rows)] = np.arange(len(table))
        bad = np.zeros(len(batch), np.bool_)
        bad[np.concatenate([np.zeros(0, np.int64), *refused])] = True
        if self._typed.mode is Mode.DROPMALFORMED and bad.any():
            batch, place = batch.filter(pa.array(~bad)), place[~bad]
        if len(table) < len(place):
            index = pa.array(place, mask=place < 0)
            fields = {name: column.take(index) for name, column in fields.items()}
        if self._has_corrupt:
            fields[self._typed.corrupt] = _texts(values, bad)
        columns = {PREFIX + name: batch.column(name) for name in self._columns}
        return pa.RecordBatch.from_arrays(
            [(fields | columns)[name] for name in self._schema.names], schema=self._schema
        )

    def _check(self, piece: TypedRows, batch: pa.RecordBatch) -> None:
        """Raise SourceError for a refused value, if one ends the read."""
        if self._typed.mode is Mode.FAILFAST:
            for refused in piece.refused:
                offset = batch.column(OFFSET)[refused.row].as_py()
                raise SourceError(
                    f"{self._place}@{offset}: {refused.words}. Options: mode=PERMISSIVE makes its"
                    " fields null, mode=DROPMALFORMED leaves it out"
                )


def _chunk(column: pa.ChunkedArray) -> pa.Array:
    chunks = column.chunks
    return chunks[0] if chunks else pa.array([], column.type)


def _texts(values: pa.Array, bad: np.ndarray[Any, Any]) -> pa.Array:
    """Return the text of refused values, else null; bytes that are not UTF-8 become U+FFFD."""
    texts: list[str | None] = [None] * len(values)
    for number in np.flatnonzero(bad).tolist():
        texts[number] = values[number].as_py().decode("utf-8", "replace")
    return pa.array(texts, pa.string())
