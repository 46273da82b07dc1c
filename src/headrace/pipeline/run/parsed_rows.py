"""Rows of a topic whose values a Python function decodes (`hp.parser`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from headrace.pipeline.unreadable import Unreadable
from headrace.spark.errors import RefusedValueError, SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame

VALUE, PARTITION, OFFSET = "value", "partition", "offset"
_WRONG = (pa.ArrowException, TypeError, ValueError, OverflowError)


class _Topic(NamedTuple):
    """How the values of a topic become columns."""

    name: str
    parse: Callable[[bytes], tuple[Any, ...]]
    fields: tuple[pa.Field, ...]
    required: tuple[int, ...]
    """Numbers of the columns that are NOT NULL."""


def parsed(
    records: DataFrame,
    topic: str,
    parse: Callable[[bytes], tuple[Any, ...]],
    columns: StructType,
    record: Sequence[str],
) -> DataFrame:
    """Return `columns` as `parse` returns them, then columns of the record with an underscore.

    `records` has `value` and the columns `record`. A record without a value has null columns, so
    all are nullable. A value that the function refuses ends the task with RefusedValueError.
    """
    kept = [StructField(f"_{name}", records.schema[name].dataType) for name in record]
    rows = StructType([*_nullable(columns), *kept])
    parse_batches = batch_parser(topic, parse, columns, rows)
    return records.mapInArrow(parse_batches, rows)


def batch_parser(
    topic: str,
    parse: Callable[[bytes], tuple[Any, ...]],
    columns: StructType,
    rows: StructType,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that makes `rows`, `columns` and those of the record, of RecordBatches.

    A batch has `value`, `partition`, `offset` and the columns that `rows` has with an underscore.
    """
    schema = to_arrow_schema(rows, timezone="UTC")
    width = len(columns.fields)
    required = tuple(number for number, column in enumerate(columns.fields) if not column.nullable)
    source = _Topic(topic, parse, tuple(schema)[:width], required)
    others = list(schema)[width:]

    def parse_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            record = [batch.column(field.name[1:]).cast(field.type) for field in others]
            yield pa.RecordBatch.from_arrays([*_parsed(source, batch), *record], schema=schema)

    return parse_batches


def _nullable(columns: StructType) -> list[StructField]:
    return [StructField(column.name, column.dataType) for column in columns.fields]


def _parsed(topic: _Topic, batch: pa.RecordBatch) -> list[pa.Array]:
    nothing = (None,) * len(topic.fields)
    rows = [
        nothing if value is None else _row(topic, batch, number, value)
        for number, value in enumerate(batch.column(VALUE).to_pylist())
    ]
    columns: list[Any] = list(zip(*rows, strict=True)) if rows else [()] * len(topic.fields)
    return [
        _column(topic, batch, values, field)
        for values, field in zip(columns, topic.fields, strict=True)
    ]


def _row(topic: _Topic, batch: pa.RecordBatch, number: int, value: bytes) -> tuple[Any, ...]:
    try:
        row = tuple(topic.parse(value))
    except Unreadable as why:
        raise RefusedValueError(f"{_place(topic, batch, number)}: {why}") from None
    if len(row) != len(topic.fields):
        raise SourceError(
            f"{_place(topic, batch, number)}: the parser returned {len(row)} values for "
            f"{len(topic.fields)} columns"
        )
    for required in topic.required:
        if row[required] is None:
            name = topic.fields[required].name
            raise RefusedValueError(f"{_place(topic, batch, number)}: {name} is null")
    return row


def _column(
    topic: _Topic, batch: pa.RecordBatch, values: tuple[Any, ...], field: pa.Field
) -> pa.Array:
    try:
        return pa.array(values, field.type)
    except _WRONG as error:
        for number, value in enumerate(values):
            try:
                pa.array([value], field.type)
            except _WRONG:
                raise SourceError(
                    f"{_place(topic, batch, number)}: the parser returned {value!r} for column "
                    f"{field.name}, which is no {field.type}"
                ) from None
        raise SourceError(f"topic {topic.name}: column {field.name}: {error}") from error


def _place(topic: _Topic, batch: pa.RecordBatch, number: int) -> str:
    partition, offset = (batch.column(name)[number].as_py() for name in (PARTITION, OFFSET))
    return f"{topic.name}-{partition}@{offset}"
