"""The Arrow schema of refused records, in spool files and manifests.

`key`, `value` and `headers` are the record's own, byte for byte. `topic`, `partition`, `offset` and
`timestamp` are the record's first position: a record that is tried again keeps them.
"""

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from headrace.arrow.read.columns import HEADERS, TYPES
from headrace.arrow.typed.json_decoder import TypedRows
from headrace.spark.quarantine.retried import ATTEMPT

DECODE = "decode"
"""The stage in which the source refuses a value."""
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


def refused_rows(
    piece: TypedRows, batch: pa.RecordBatch, topic: str, partition: int, schema_digest: str
) -> pa.RecordBatch:
    """Return the refused records of a RecordBatch with COLUMNS_READ, value and offset.

    A restored record (`retried.restored`) has columns for its topic, partition and attempt.
    """
    found = list(piece.refused)
    rows = batch.take(pa.array([refused.row for refused in found], pa.int64()))
    count = len(found)
    micros = rows.column("timestamp").cast(pa.int64())
    if ATTEMPT in batch.schema.names:
        topics, partitions = rows.column("topic"), rows.column("partition")
        attempts = pc.add(rows.column(ATTEMPT), pa.scalar(1, pa.int32()))
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
        "stage": pa.repeat(DECODE, count),
        "reason": pa.array([refused.words for refused in found], pa.string()),
        "field": pa.array([refused.refusal.path for refused in found], pa.string()),
        "schema": pa.repeat(schema_digest, count),
        "attempt": attempts,
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def records_of(batch: pa.RecordBatch) -> Iterator[RefusedRecord]:
    """Yield the records of rows with SCHEMA."""
    for row in batch.to_pylist():
        headers = [(header["key"], header["value"]) for header in row[HEADERS] or ()]
        yield RefusedRecord(**{**row, HEADERS: headers})
