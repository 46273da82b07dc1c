"""A reading task with a quarantine: typed rows to Spark, refused records to the spool."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark import TaskContext

from headrace.arrow.typed.decoder import TypedRows
from headrace.arrow.typed.typed_rows import Decoding, TypedRanges
from headrace.model.nouns import TopicPartition
from headrace.spark.errors import SourceError
from headrace.spark.quarantine.record_file import RecordFile
from headrace.spark.quarantine.refused import refused_rows, replayed_rows
from headrace.spark.quarantine.retried import Reader, restored
from headrace.spark.quarantine.spool import BatchRun, Planned, RangeSpool, Spool


@dataclass(frozen=True)
class TaskQuarantine:
    """How a reading task spools what it refuses. Pickled to the task."""

    spool: Spool
    schema_digest: str
    planned: tuple[Planned, ...]
    """The ranges of the task's topic in this batch."""
    retries: bool = False
    """Whether the topic has records that are read again."""
    first: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Offsets at which the query began; empty: not known."""


def current_batch() -> BatchRun:
    """Return the batch of the Spark task that runs now. SourceError if it is not a stream's."""
    context = TaskContext.get()
    names = ("sql.streaming.queryId", "streaming.sql.batchId", "spark.jobGroup.id")
    found = [context.getLocalProperty(name) if context is not None else None for name in names]
    query, batch, run = found
    if query is None or batch is None or run is None:
        raise SourceError("mode=QUARANTINE: only streaming queries have a quarantine")
    return BatchRun(query, int(batch), run)


class QuarantinedRange:
    """Makes typed rows of one task's range, and spools the records that are refused."""

    def __init__(
        self,
        typed: Decoding,
        columns: tuple[str, ...],
        quarantine: TaskQuarantine,
        place: TopicPartition,
        offsets: tuple[int, int],
    ) -> None:
        self._place = place
        self._flow = quarantine.spool.flow if quarantine.retries else None
        self._schema_digest = quarantine.schema_digest
        self._first = quarantine.first
        self._read = 0
        self._rows = TypedRanges(typed, columns, str(place), self._refuse)
        at = current_batch()
        self._query = at.query
        quarantine.spool.check_published(at.query, at.batch)
        self._spool = RangeSpool(
            quarantine.spool,
            at,
            place,
            offsets,
            quarantine.schema_digest,
            quarantine.planned,
        )
        self._replayed = RecordFile(quarantine.spool.replayed(at, place, offsets))

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows; the last ones only after the spool's file is durable."""
        try:
            last: pa.RecordBatch | None = None
            for rows in self._rows.rows(self._at_first_positions(self._counted(batches))):
                if last is not None:
                    yield last
                last = rows
            self._spool.finish(self._read)
            self._replayed.finish()
            if last is not None:
                yield last
        finally:
            self._spool.discard()
            self._replayed.discard()

    def _counted(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self._read += len(batch)
            yield batch

    def _at_first_positions(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if self._flow is None:
            yield from batches
            return
        reader = Reader(self._flow, self._query, self._first)
        for batch in restored(batches, reader, str(self._place)):
            if len(batch):
                self._replayed.add(replayed_rows(batch))
            yield batch

    def _refuse(self, piece: TypedRows, batch: pa.RecordBatch) -> None:
        self._spool.add(refused_rows(piece, batch, *self._place, self._schema_digest))
