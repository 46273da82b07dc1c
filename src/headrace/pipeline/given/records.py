"""The records of a test, decoded as a run decodes a topic's.

Each record is decoded by itself, so a refused one has its reason.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    StructField,
    StructType,
    TimestampType,
)

from headrace.arrow.read.columns import TYPES
from headrace.arrow.typed.typed_rows import (
    Decoding,
    OnUnknown,
    RefusedRecordError,
    TypedRanges,
    TypedValues,
)
from headrace.pipeline.run.parsed_rows import parsed_values
from headrace.pipeline.run.topic_streams import record_columns
from headrace.pipeline.topic_columns import columns_of, value_columns
from headrace.spark.tables.sink import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from headrace.pipeline.declarations import TopicSource

_COLUMNS = ("key", "value", "partition", "offset", "timestamp")
_KINDS = {
    "key": BinaryType(),
    "value": BinaryType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
}
FIRST_TIME = datetime(2026, 1, 1, tzinfo=UTC)
"""Time of records that are given without one."""


@dataclass(frozen=True)
class GivenRecord:
    """A record of a topic in a test; `pipeline.record(…)` makes one."""

    value: bytes | None
    key: bytes | None = None
    timestamp: datetime = FIRST_TIME
    place: tuple[int, int] | None = None
    """Partition and offset of a real record; None: the next offset of partition 0."""


def given_record(value: object) -> GivenRecord:
    """Return the record of a test's value: bytes, text, None, or what JSON can write."""
    match value:
        case GivenRecord():
            return value
        case bytes() | None:
            return GivenRecord(value)
        case str():
            return GivenRecord(value.encode())
        case _:
            return GivenRecord(json.dumps(value).encode())


@dataclass
class GivenTopic:
    """The records of one topic: a list for each micro-batch."""

    name: str
    batches: list[list[GivenRecord]] = field(default_factory=list)

    def raw(self) -> Iterator[pa.RecordBatch]:
        """Yield the records of each micro-batch as a RecordBatch; offsets count from 0."""
        for records, places in zip(self.batches, self._places(), strict=True):
            columns: Mapping[str, list[Any]] = {
                "key": [record.key for record in records],
                "value": [record.value for record in records],
                "partition": [partition for partition, _ in places],
                "offset": [offset for _, offset in places],
                "timestamp": [record.timestamp for record in records],
            }
            arrays = [pa.array(columns[name], TYPES[name]) for name in _COLUMNS]
            yield pa.RecordBatch.from_arrays(arrays, names=list(_COLUMNS))

    def value(self, offset: int, partition: int = 0) -> bytes | None:
        """Return the value of a record."""
        batches = zip(self.batches, self._places(), strict=True)
        return next(
            record.value
            for records, places in batches
            for record, place in zip(records, places, strict=True)
            if place == (partition, offset)
        )

    def _places(self) -> Iterator[list[tuple[int, int]]]:
        """Yield partition and offset of the records of each micro-batch."""
        offset = 0
        for records in self.batches:
            numbered = enumerate(records, offset)
            yield [record.place or (0, number) for number, record in numbered]
            offset += len(records)


@dataclass(frozen=True)
class Refused:
    """A record that the decoder or a check refused."""

    offset: int
    reason: str
    value: bytes | None
    partition: int = 0


@dataclass
class DecodedTopic:
    """Rows of each micro-batch, and the refused records."""

    schema: StructType
    batches: list[pa.Table]
    refused: list[Refused]
    unknown_keys: Mapping[str, int] = field(default_factory=dict)
    """Keys that no column has, by name."""

    def count_unknown(self, names: Mapping[str, int]) -> None:
        """Take the undeclared keys of all records so far."""
        self.unknown_keys = dict(names)


def decoded(source: TopicSource, topic: GivenTopic) -> DecodedTopic:
    """Decode the records of a topic. DeclarationError for columns that Spark does not parse."""
    columns_of(source)
    record = record_columns(source)
    columns = value_columns(source)
    nullable = [StructField(column.name, column.dataType) for column in columns.fields]
    rows = StructType([*nullable, *(StructField(f"_{name}", _KINDS[name]) for name in record)])
    found = DecodedTopic(rows, [], [])
    decode = _decoder(source, record, rows, found.count_unknown)
    for batch in topic.raw():
        good = []
        for number in range(len(batch)):
            row = batch.slice(number, 1)
            try:
                good += decode(row)
            except RefusedRecordError as error:
                offset, partition, value = (
                    row.column(name)[0].as_py() for name in ("offset", "partition", "value")
                )
                # The decoder is made for one partition.
                _, _, reason = str(error).partition(f"@{offset}: ")
                found.refused.append(Refused(offset, reason, value, partition))
        found.batches.append(pa.Table.from_batches(good, arrow_schema(rows)))
    return found


def _decoder(
    source: TopicSource, record: Sequence[str], rows: StructType, on_unknown: OnUnknown
) -> Callable[[pa.RecordBatch], list[pa.RecordBatch]]:
    """Return the function that decodes one record, as a run's source does."""
    schema = arrow_schema(rows)
    if source.parser is None:
        decoding: Decoding = TypedValues(source.columns, on_unknown=on_unknown)
    else:
        decoding = parsed_values(source, source.parser, Path())
    ranges = TypedRanges(decoding, record, f"{source.name}-0")
    return lambda batch: [
        each.cast(schema) if each.schema != schema else each for each in ranges.rows([batch])
    ]
