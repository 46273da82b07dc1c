"""Records of a retry topic, as they were at their first position.

`headrace pipeline quarantine replay` sends refused records to `<pipeline>.<topic>.retry` with all
their headers. A source reads that topic too. Its rows have the position and time of the record's
first read, and a record that is refused again is quarantined under that position, as one attempt
more.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from headrace.arrow.read.columns import HEADERS, TYPES
from headrace.model.nouns import TopicPartition
from headrace.spark.errors import SourceError
from headrace.spark.quarantine.names import HEADER

ATTEMPT = "attempt"
"""The column of restored records with the number of times that a record was refused before."""
_US_PER_MS = 1000


class Reader(NamedTuple):
    """A query that reads a retry topic."""

    flow: str
    query: str
    first: Mapping[TopicPartition, int]
    """Offsets at which the query began; empty: not known."""

    def has_read(self, query: str, place: TopicPartition, offset: int) -> bool:
        """Return whether this query has read a record itself that another one has refused.

        It is in this query's sink then, or this query has refused it, too.
        """
        return bool(self.first) and query != self.query and offset >= self.first.get(place, 0)


def restored(
    batches: Iterator[pa.RecordBatch], reader: Reader, place: str
) -> Iterator[pa.RecordBatch]:
    """Yield the records that are addressed to a flow, at their first positions.

    The batches have the column `headers`. Columns `topic`, `partition` and ATTEMPT are added, and
    `offset`, `timestamp` and `headers` replaced. SourceError if a record was not replayed from a
    quarantine; `place`: the partition of the retry topic, for the error.
    """
    for batch in batches:
        yield _restored(batch, reader, place)


def _restored(batch: pa.RecordBatch, reader: Reader, place: str) -> pa.RecordBatch:
    rows, own, topics, partitions, offsets, micros, attempts = [], [], [], [], [], [], []
    for row, headers in enumerate(batch.column(HEADERS).to_pylist()):
        headers = headers or []
        info = {header["key"]: header["value"] for header in headers}
        try:
            if info[f"{HEADER}flow"].decode() != reader.flow:
                continue
            topic = info[f"{HEADER}topic"].decode()
            partition, offset = int(info[f"{HEADER}partition"]), int(info[f"{HEADER}offset"])
            # Records of an older release do not have it.
            query = (info.get(f"{HEADER}query") or reader.query.encode()).decode()
            if reader.has_read(query, TopicPartition(topic, partition), offset):
                continue
            topics.append(topic)
            partitions.append(partition)
            offsets.append(offset)
            micros.append(int(info[f"{HEADER}timestamp"]) * _US_PER_MS)
            attempts.append(int(info[f"{HEADER}{ATTEMPT}"]))
        except (KeyError, ValueError, TypeError, AttributeError):
            raise SourceError(
                f"{place}@{batch.column('offset')[row].as_py()} is no replayed record of a"
                " quarantine: only `headrace pipeline quarantine replay` writes to this topic"
            ) from None
        rows.append(row)
        own.append([header for header in headers if not header["key"].startswith(HEADER)])
    columns: dict[str, Any] = dict(zip(batch.schema.names, batch.columns, strict=True))
    indices = pa.array(rows, pa.int64())
    columns = {name: column.take(indices) for name, column in columns.items()}
    columns |= {
        "topic": pa.array(topics, pa.string()),
        "partition": pa.array(partitions, pa.int32()),
        "offset": pa.array(offsets, pa.int64()),
        "timestamp": pa.array(micros, TYPES["timestamp"]),
        HEADERS: pa.array(own, TYPES[HEADERS]),
        ATTEMPT: pa.array(attempts, pa.int32()),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
