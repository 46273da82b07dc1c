"""Tasks for ranges of offsets."""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import InputPartition

from headrace.arrow.typed.typed_rows import TypedValues
from headrace.client.transport.port import Address
from headrace.model.nouns import TopicPartition
from headrace.spark.batch_counts import write_task_counts
from headrace.spark.quarantine.range_task import QuarantinedRange, TaskQuarantine
from headrace.spark.quarantine.spool import Planned
from headrace.spark.source.columns import Columns
from headrace.spark.source.offsets import Ends, id_of_text
from headrace.spark.source.options import Options
from headrace.spark.source.plan import OffsetRange, split
from headrace.spark.source.read import RangePartition, RangeReader
from headrace.spark.source.typed_values import typed_rows
from headrace.wire.kafka.primitives import NO_UUID

_log = logging.getLogger(__name__)


def ranges_of(begin: Ends, end: Ends) -> list[OffsetRange]:
    """Return the ranges from `begin` to `end`, for partitions in both."""
    return [
        OffsetRange(*partition, begin[partition], offset)
        for partition, offset in end.items()
        if partition in begin
    ]


def tasks_of(
    options: Options,
    columns: Columns,
    ranges: Sequence[OffsetRange],
    parts: Mapping[TopicPartition, int],
    leaders: Mapping[TopicPartition, Address],
    ids: Mapping[str, str],
    from_earliest: Collection[TopicPartition],
    first: Ends | None = None,
) -> list[InputPartition]:
    """Return the tasks that read `ranges`.

    `ids`: topic ids at planning time; a task refuses a recreated topic of the same name.
    `from_earliest`: partitions whose range starts at the log's first offset. `first`: offsets at
    which the query began, if they are known.
    """
    topic_ids = {topic: id_of_text(text) for topic, text in ids.items()}
    begins = {range_.place: range_.begin for range_ in ranges}
    quarantines = _quarantines_of(options, ranges, first or {})
    return [
        RangePartition(
            options.bootstrap,
            *range_,
            columns=columns.names,
            required=columns.required,
            fail_on_data_loss=options.fail_on_data_loss,
            fetching=options.fetching,
            leader=leaders.get(range_.place),
            topic_id=topic_ids.get(range_.topic, NO_UUID),
            typed=options.typed,
            record_columns=options.columns,
            quarantine=quarantines.get(range_.topic),
            unknown_keys=options.unknown_keys,
            from_earliest=range_.place in from_earliest and range_.begin == begins[range_.place],
        )
        for range_ in split(ranges, parts)
    ]


def read_task(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Yield one task's rows. Runs on an executor."""
    if not isinstance(partition, RangePartition):
        return iter(())  # Spark's placeholder partition for a read without tasks.
    batches = RangeReader(partition).batches()
    if partition.typed is None:
        return batches
    typed, columns = partition.typed, partition.record_columns
    if partition.unknown_keys is not None and isinstance(typed, TypedValues):
        typed = replace(typed, on_unknown=partial(_count_unknown, partition))
    if partition.quarantine is None:
        return typed_rows(typed, columns, str(partition.place), batches)
    offsets = (partition.begin, partition.end)
    return QuarantinedRange(typed, columns, partition.quarantine, partition.place, offsets).rows(
        batches
    )


def _count_unknown(partition: RangePartition, names: Mapping[str, int]) -> None:
    """Report a task's undeclared keys to the process that runs the query; batch reads do not."""
    context = TaskContext.get()
    batch = None if context is None else context.getLocalProperty("streaming.sql.batchId")
    if batch is not None and partition.unknown_keys is not None:
        counts = {partition.topic: dict(names)}
        task = f"{partition.place}.{partition.begin}"
        write_task_counts(Path(partition.unknown_keys), int(batch), task, counts)


def _quarantines_of(
    options: Options, ranges: Sequence[OffsetRange], first: Ends
) -> dict[str, TaskQuarantine]:
    """Return the tasks' quarantine by topic; empty unless mode=QUARANTINE."""
    quarantine = options.quarantine
    if quarantine is None:
        return {}
    planned: dict[str, list[Planned]] = {}
    for topic, partition, begin, end in sorted(ranges):
        if end > begin:
            planned.setdefault(topic, []).append(Planned(partition, begin, end))
    retries = quarantine.retry_topics(options.subscription.topics)
    return {
        topic: TaskQuarantine(
            quarantine.spool, quarantine.schema_digest, tuple(found), topic in retries, first
        )
        for topic, found in planned.items()
    }


def warn_of_ignored(options: Options) -> None:
    """Log the options that have no effect here."""
    for name in options.ignored:
        _log.warning("option %s has no effect here", name)
