"""The Arrow schema of refused records, in spool files and manifests.

`key`, `value` and `headers` are the record's own, byte for byte. `topic`, `partition`, `offset` and
`timestamp` are the record's first position: a record that is tried again keeps them.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from headrace.arrow.read.columns import HEADERS, TYPES
from headrace.arrow.typed.decoder import TypedRows
from headrace.spark.quarantine.retried import ATTEMPT

DECODE, CHECK = "decode", "check"
"""The stages in which the source refuses a value, and a sink a row that fails a check."""
COLUMNS_READ = ("key", "timestamp", HEADERS)
"""Columns of the record that the source reads with value and offset, to spool it whole."""
SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), False),
        pa.field("partition", pa.int32(), False),
        pa.field("offset", pa.int64(), False),
        pa.field("timestamp", pa.int64(), False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field(HEADERS, TYPES[HEADERS]),
        pa.field("stage", pa.string(), False),
        pa.field("reason", pa.string(), False),
        pa.field("field", pa.string(), False),
        pa.field("schema", pa.string(), False),
        pa.field("attempt", pa.int32(), False),
    ]
)
"""`timestamp`: ms since 1970. `field`: path of the refused field, empty if the whole value is.
`schema`: digest of the declared schema. `attempt`: how many times the record was refused."""
_US_PER_MS = 1000


class RefusedRecord(NamedTuple):
    """A refused record; fields as in SCHEMA."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    stage: str
    reason: str
    field: str
    schema: str
    attempt: int

    @property
    def place(self) -> str:
        """The record's position, such as `orders-3@88123`."""
        return f"{self.topic}-{self.partition}@{self.offset}"


class _Refusals(NamedTuple):
    """Why rows are refused, a reason and a field for each."""

    stage: str
    reasons: Sequence[str]
    fields: Sequence[str]
    schema: str
    attempts: int
    """Number that is added to the attempts of restored records."""


def refused_rows(
    piece: TypedRows, batch: pa.RecordBatch, topic: str, partition: int, schema_digest: str
) -> pa.RecordBatch:
    """Return the refused records of a RecordBatch with COLUMNS_READ, value and offset.

    A restored record (`retried.restored`) has columns for its topic, partition and attempt.
    """
    found = list(piece.refused)
    rows = batch.take(pa.array([refused.row for refused in found], pa.int64()))
    words = [refused.words for refused in found]
    paths = [refused.path for refused in found]
    return _spooled(rows, topic, partition, _Refusals(DECODE, words, paths, schema_digest, 1))


def replayed_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return restored records without a reason; their attempts are those of before."""
    nothing = [""] * len(batch)
    return _spooled(batch, "", 0, _Refusals("", nothing, nothing, "", 0))


def checked_rows(
    rows: pa.RecordBatch, topic: str, partition: int, checks: Sequence[str], schema_digest: str
) -> pa.RecordBatch:
    """Return the records of rows that fail a check each.

    `rows` have COLUMNS_READ, value and offset, as a topic has them.
    """
    reasons = [reason_of_check(name) for name in checks]
    refusals = _Refusals(CHECK, reasons, [""] * len(rows), schema_digest, 1)
    return _spooled(rows, topic, partition, refusals)


def reason_of_check(name: str) -> str:
    """Return the reason of a record that a check refuses."""
    return f"check: {name}"


def _spooled(
    rows: pa.RecordBatch, topic: str, partition: int, refusals: _Refusals
) -> pa.RecordBatch:
    count = len(rows)
    micros = rows.column("timestamp").cast(pa.int64())
    if ATTEMPT in rows.schema.names:
        topics, partitions = rows.column("topic"), rows.column("partition")
        attempts = pc.add(rows.column(ATTEMPT), pa.scalar(refusals.attempts, pa.int32()))
    else:
        topics = pa.repeat(topic, count)
        partitions = pa.repeat(pa.scalar(partition, pa.int32()), count)
        attempts = pa.repeat(pa.scalar(1, pa.int32()), count)
    columns = {
        "topic": topics,
        "partition": partitions,
        "offset": rows.column("offset"),
        "timestamp": pa.array(micros.to_numpy() // _US_PER_MS, pa.int64()),
        "key": rows.column("key"),
        "value": rows.column("value"),
        HEADERS: rows.column(HEADERS),
        "stage": pa.repeat(refusals.stage, count),
        "reason": pa.array(refusals.reasons, pa.string()),
        "field": pa.array(refusals.fields, pa.string()),
        "schema": pa.repeat(refusals.schema, count),
        "attempt": attempts,
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def records_of(batch: pa.RecordBatch) -> Iterator[RefusedRecord]:
    """Yield the records of rows with SCHEMA."""
    for row in batch.to_pylist():
        headers = [(header["key"], header["value"]) for header in row[HEADERS] or ()]
        yield RefusedRecord(**{**row, HEADERS: headers})
