"""Batch reads: from the starting to the ending offsets, fixed when the read is planned."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from headrace.client.calls.offsets import EARLIEST, LATEST
from headrace.model.nouns import TopicPartition
from headrace.spark.errors import OptionError, SourceError
from headrace.spark.source.cluster import Cluster
from headrace.spark.source.columns import columns_of
from headrace.spark.source.offsets import Ends
from headrace.spark.source.options import Bound, Options
from headrace.spark.source.plan import backlog, parts_of
from headrace.spark.source.tasks import ranges_of, read_task, tasks_of, warn_of_ignored


class BatchReader(DataSourceReader):
    """A batch read. Starting and ending offsets are resolved once, when it is planned."""

    def __init__(self, options: Options, schema: StructType) -> None:
        if options.quarantine is not None:
            raise OptionError(
                "mode: QUARANTINE is for streaming queries, whose sink publishes refused records;"
                " use FAILFAST, PERMISSIVE or DROPMALFORMED"
            )
        self._options = options
        self._columns = columns_of(options, schema)

    def partitions(self) -> Sequence[InputPartition]:
        """Return the tasks of this read, from the current offsets."""
        options = self._options
        warn_of_ignored(options)
        with Cluster(options.bootstrap, options.fetching) as cluster:
            view = cluster.look(options.subscription)
            every = view.partitions()
            begin = cluster.resolve(options.starting, every)
            end = cluster.resolve(options.ending, every)
            self._check_order(begin, end)
            self._check_ends(cluster, end)
            weights = None
            if options.splitting.max_bytes is not None:
                behind = backlog(begin, end)
                weights = cluster.record_bytes({at: begin[at] for at in behind}, view)
        ranges = ranges_of(begin, end)
        return tasks_of(
            options,
            self._columns,
            ranges,
            parts_of(ranges, options.splitting, weights),
            view.leaders(),
            view.ids(),
            _from_earliest(options.starting, every),
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield one task's rows. Runs on an executor."""
        return read_task(partition)

    def _check_order(self, begin: Ends, end: Ends) -> None:
        options = self._options
        for partition, offset in end.items():
            if offset < begin[partition]:
                if options.ending.offsets == LATEST and isinstance(options.starting.offsets, int):
                    continue  # Retention deleted everything in between.
                raise SourceError(
                    f"{partition} is to end at {offset}, before it starts at {begin[partition]}"
                )

    def _check_ends(self, cluster: Cluster, end: Ends) -> None:
        """Raise SourceError if a partition's ending offset is beyond its log: a task would wait for
        it.

        Not with failOnDataLoss=false, which reads the records that exist. Tasks do wait for
        committed reads that an open transaction holds back.
        """
        options = self._options
        if isinstance(options.ending.offsets, int) or not options.fail_on_data_loss:
            return
        latest = cluster.ends(end, LATEST, read_committed=False)
        for partition, offset in end.items():
            if offset > latest[partition]:
                raise SourceError(
                    f"endingOffsets: {partition} is to end at {offset}, its log ends at"
                    f" {latest[partition]}"
                )


def _from_earliest(starting: Bound, partitions: Sequence[TopicPartition]) -> set[TopicPartition]:
    """Return the partitions whose starting offset is `earliest`."""
    if starting.timestamp is not None or starting.timestamps is not None:
        return set()
    offsets = starting.offsets
    if isinstance(offsets, int):
        return set(partitions) if offsets == EARLIEST else set()
    return {at for at in partitions if offsets[at.topic][at.partition] == EARLIEST}
