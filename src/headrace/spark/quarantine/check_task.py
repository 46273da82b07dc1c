"""A writing task with a quarantine: the records of rows that fail a check go to the spool.

A row has its record's partition and offset only. The task reads the records again, from the topic,
or from the spool if they were replayed: their first position may be deleted by now.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from headrace.arrow.read.columns import NEVER_NULL
from headrace.spark.checks.division import Division
from headrace.spark.checks.options import RowChecks
from headrace.spark.errors import SourceError
from headrace.spark.quarantine.options import SinkQuarantine
from headrace.spark.quarantine.range_task import current_batch
from headrace.spark.quarantine.record_file import RecordFile
from headrace.spark.quarantine.refused import CHECK, COLUMNS_READ, checked_rows, reason_of_check
from headrace.spark.quarantine.spool import BatchRun, Spool
from headrace.spark.source.options import Fetching
from headrace.spark.source.read import RangePartition, RangeReader

_COLUMNS = ("value", "offset", *COLUMNS_READ)
_GAP_OFFSETS_MAX = 10_000
"""Offsets between two records that are read rather than skipped: a skip costs two requests."""
_Left = dict[int, dict[int, str]]
"""Partition → offset → the check that the record's row fails, of records still to be spooled."""


class _Topic(NamedTuple):
    """The topic whose rows are checked."""

    name: str
    schema_digest: str


def spool_failed(
    quarantine: SinkQuarantine | None, checks: RowChecks | None, division: Division | None
) -> str:
    """Spool the records of a task's rows that go to the quarantine; return the file's path.

    Empty without such rows, and for a write without a quarantine. DataLossError or SourceError if a
    record no longer exists, BrokerAwayError; SourceError if the spool cannot be written.
    """
    if quarantine is None or checks is None or division is None or not division.moved:
        return ""
    topic = _Topic(checks.topic, checks.schema_digest)
    at = current_batch()
    file = RecordFile(quarantine.spool.checked(at))
    left = {partition: dict(offsets) for partition, offsets in division.moved.items()}
    try:
        for rows in _replayed(quarantine.spool, at, topic, left):
            file.add(rows)
        for partition in sorted(left):
            for rows in _read(quarantine, topic, partition, left[partition]):
                file.add(rows)
        _check_none(topic, left)
        file.finish()
    finally:
        file.discard()
    return str(file.path)


def _check_none(topic: _Topic, left: _Left) -> None:
    """Raise SourceError if a record is left."""
    for partition, offsets in sorted(left.items()):
        for offset, check in sorted(offsets.items()):
            raise SourceError(
                f"{topic.name}-{partition}@{offset} fails check {check!r} and is no longer in the"
                " topic, so it cannot be moved to the quarantine: compaction has deleted it since"
                " it was read. Nothing of the batch is written; start the query again"
            )


def _replayed(spool: Spool, at: BatchRun, topic: _Topic, left: _Left) -> Iterator[pa.RecordBatch]:
    """Yield replayed records of `left`, as refused once more, and remove them from it."""
    for path in spool.all_replayed(at):
        with pa.memory_map(str(path)) as source:
            reader = pa.ipc.open_file(source)
            for number in range(reader.num_record_batches):
                yield from _chosen(reader.get_batch(number), topic, left)


def _chosen(batch: pa.RecordBatch, topic: _Topic, left: _Left) -> Iterator[pa.RecordBatch]:
    chosen = []
    columns = (batch.column(name).to_pylist() for name in ("topic", "partition", "offset"))
    for row, (name, partition, offset) in enumerate(zip(*columns, strict=True)):
        if name == topic.name and offset in left.get(partition, ()):
            chosen.append((row, left[partition].pop(offset)))
    if not chosen:
        return
    rows = batch.take(pa.array([row for row, _ in chosen], pa.int64())).to_pylist()
    refused: list[dict[str, Any]] = [
        {
            **row,
            "stage": CHECK,
            "reason": reason_of_check(check),
            "schema": topic.schema_digest,
            "attempt": row["attempt"] + 1,
        }
        for row, (_, check) in zip(rows, chosen, strict=True)
    ]
    yield pa.RecordBatch.from_pylist(refused, batch.schema.remove_metadata())


def _read(
    quarantine: SinkQuarantine, topic: _Topic, partition: int, left: dict[int, str]
) -> Iterator[pa.RecordBatch]:
    """Yield the records of `left`, checks by offset, from the topic, and remove them from it."""
    for begin, end in _ranges(sorted(left)):
        task = RangePartition(
            quarantine.bootstrap,
            topic.name,
            partition,
            begin,
            end,
            columns=_COLUMNS,
            required=NEVER_NULL.intersection(_COLUMNS),
            fail_on_data_loss=True,
            # The source has decided which records are committed.
            fetching=Fetching(security=quarantine.security),
        )
        wanted = np.array([offset for offset in left if begin <= offset < end], np.int64)
        for batch in RangeReader(task).batches():
            found = np.isin(batch.column("offset").to_numpy(), wanted)
            if found.any():
                rows = batch.filter(pa.array(found))
                checks = [left.pop(offset) for offset in rows.column("offset").to_pylist()]
                yield checked_rows(rows, topic.name, partition, checks, topic.schema_digest)


def _ranges(offsets: list[int]) -> Iterator[tuple[int, int]]:
    """Yield ranges, the end exclusive, that hold these sorted offsets and no long gap."""
    begin = before = offsets[0] if offsets else 0
    for offset in offsets[1:]:
        if offset - before > _GAP_OFFSETS_MAX:
            yield begin, before + 1
            begin = offset
        before = offset
    if offsets:
        yield begin, before + 1
