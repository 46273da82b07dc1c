"""The data source: what Spark asks for, in Spark's words.

Spark runs each method in a Python process of its own choosing: readers are pickled, so they hold
options only and connect where they are used.
"""

import logging
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headrace.client.offsets import EARLIEST, LATEST
from headrace.spark.cluster import Cluster, ids_of, lost, partitions_of
from headrace.spark.errors import OptionError, SourceError
from headrace.spark.offsets import Ends, Position
from headrace.spark.options import Options, parse_options
from headrace.spark.plan import OffsetRange, backlog, limit_bytes, limit_rows, split
from headrace.spark.read import RangePartition, RangeReader
from headrace.spark.sink import batch_writer, stream_writer

_log = logging.getLogger(__name__)

_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": ArrayType(_HEADER),
}


def row_schema(columns: Sequence[str]) -> StructType:
    """Return Spark's schema of these columns."""
    return StructType([StructField(name, _TYPES[name]) for name in columns])


def chosen_columns(schema: StructType) -> tuple[str, ...]:
    """Return the columns of a schema the user gave; OptionError where it is not made of ours.

    This is how unneeded columns are left out: `.schema("value binary, offset long")`.
    """
    for column in schema:
        if _TYPES.get(column.name) != column.dataType:
            ours = ", ".join(f"{name} {kind.simpleString()}" for name, kind in _TYPES.items())
            raise OptionError(
                f"schema: {column.name} {column.dataType.simpleString()} is none of {ours}"
            )
    return tuple(schema.fieldNames())


class HeadraceSource(DataSource):
    """`format("headrace")`."""

    @classmethod
    def name(cls) -> str:
        """Return what `format` is given."""
        return "headrace"

    def schema(self) -> StructType:
        """Return the connector's row, or the columns chosen."""
        # Batch or stream is not known yet: columns and headers are the same for both.
        return row_schema(parse_options(_without_bounds(self.options), streaming=False).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader for `spark.read`."""
        return BatchReader(parse_options(self.options, streaming=False), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader for `spark.readStream`."""
        return StreamReader(parse_options(self.options, streaming=True), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer for `df.write`."""
        if overwrite:
            raise OptionError("mode: a topic cannot be overwritten; use append")
        return batch_writer(self.options, schema)

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        """Return the writer for `df.writeStream`."""
        if overwrite:
            raise OptionError("outputMode: a topic cannot be overwritten; use append or update")
        return stream_writer(self.options, schema)


def _without_bounds(options: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in options.items()
        if not name.lower().startswith(("starting", "ending"))
    }


def _tasks(options: Options, columns: Sequence[str], begin: Ends, end: Ends) -> list[Any]:
    ranges = [
        OffsetRange(*partition, begin[partition], offset)
        for partition, offset in end.items()
        if partition in begin
    ]
    return [
        RangePartition(
            options.bootstrap,
            *range_,
            columns=tuple(columns),
            fail_on_data_loss=options.fail_on_data_loss,
            fetching=options.fetching,
        )
        for range_ in split(ranges, options.min_partitions, options.max_records_per_partition)
    ]


def _read(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    if not isinstance(partition, RangePartition):
        return iter(())  # Spark's stand-in where there was nothing to read
    return RangeReader(partition).batches()


def _warn_of_ignored(options: Options) -> None:
    for name in options.ignored:
        _log.warning("option %s does nothing here", name)


class BatchReader(DataSourceReader):
    """Reads from the starting to the ending offsets, resolved once, when the read is planned."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._columns = chosen_columns(schema)

    def partitions(self) -> Sequence[InputPartition]:
        """Return tasks for what is there now."""
        options = self._options
        _warn_of_ignored(options)
        with Cluster(options.bootstrap, options.fetching) as cluster:
            every = partitions_of(cluster.topics(options.subscription))
            begin = cluster.resolve(options.starting, every)
            end = cluster.resolve(options.ending, every)
        for partition in every:
            if end[partition] < begin[partition]:
                if options.ending.offsets == LATEST and isinstance(options.starting.offsets, int):
                    continue  # everything between was deleted meanwhile
                raise SourceError(
                    f"{partition} is to end at {end[partition]},"
                    f" before it starts at {begin[partition]}"
                )
        return _tasks(options, self._columns, begin, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield one task's rows. Runs on an executor."""
        return _read(partition)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches on the driver; its `read` runs on executors.

    What must not change when a batch is repeated is in the offsets alone, never in this object.
    """

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._columns = chosen_columns(schema)
        self._cluster: Cluster | None = None
        self._target: Position | None = None
        self._latest: Position | None = None
        self._group = options.group or ""
        self._triggered_at = time.monotonic()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cluster": None, "_target": None, "_latest": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return where a query without a checkpoint starts."""
        options = self._options
        _warn_of_ignored(options)
        if options.group_prefix:
            self._group = f"{options.group_prefix}-{uuid.uuid4()}"
        topics = self._ask().topics(options.subscription)
        offsets = self._ask().resolve(options.starting, partitions_of(topics))
        return self._position(offsets, ids_of(topics)).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return maxOffsetsPerTrigger or maxBytesPerTrigger. With both, both hold."""
        if self._options.max_offsets is not None:
            return ReadMaxRows(self._options.max_offsets)
        if self._options.max_bytes is not None:
            return ReadMaxBytes(self._options.max_bytes)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Let latestOffset go no further from now on than what is there now."""
        topics = self._ask().topics(self._options.subscription)
        self._target = self._position(
            self._ask().ends(partitions_of(topics), LATEST), ids_of(topics)
        )

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return where the next batch ends. The same as `start` where there is nothing to read."""
        before = Position.of_json(start)
        self._group = before.group or self._group
        latest = self._target or self._look()
        self._latest = latest
        begin, added = self._begin(before, latest)
        ends = {partition: max(end, begin[partition]) for partition, end in latest.offsets.items()}
        if not isinstance(limit, ReadAllAvailable):
            if self._must_wait(begin, ends):
                return start
            ends = self._limited(begin, ends, limit)
        after = self._position(
            ends, latest.ids, {partition: added[partition] for partition in added}
        )
        if not added and after.offsets == before.offsets and after.ids == before.ids:
            return start
        self._triggered_at = time.monotonic()
        return after.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the end of what can be read, for the query's progress."""
        return None if self._latest is None else self._latest.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a batch: the same whenever it is repeated."""
        before, after = Position.of_json(start), Position.of_json(end)
        begin = {**before.offsets, **after.added}
        return _tasks(self._options, self._columns, begin, after.offsets)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield one task's rows. Runs on an executor."""
        return _read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Show the offsets under the group that was given; a failure is only told of.

        Spark does not call this for the last batch of Trigger.AvailableNow: `attach` does more.
        """
        position = Position.of_json(end)
        if not position.group:
            return
        try:
            self._ask().commit(position.group, position.offsets)
        except SourceError as error:
            _log.warning("offsets are not shown as group %s: %s", position.group, error)

    def stop(self) -> None:
        """Close the connections of the driver."""
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    def _ask(self) -> Cluster:
        if self._cluster is None:
            self._cluster = Cluster(self._options.bootstrap, self._options.fetching)
        return self._cluster

    def _position(
        self, offsets: Ends, ids: Mapping[str, str], added: Ends | None = None
    ) -> Position:
        return Position(self._options.bootstrap, offsets, self._group, ids, added or {})

    def _look(self) -> Position:
        topics = self._ask().topics(self._options.subscription)
        return self._position(self._ask().ends(partitions_of(topics), LATEST), ids_of(topics))

    def _begin(self, before: Position, latest: Position) -> tuple[Ends, Ends]:
        """Return where each partition goes on, and those of them that come new with this batch.

        New partitions, and all of a topic that was made again, start at their earliest offset.
        """
        fail = self._options.fail_on_data_loss
        for partition in sorted(set(before.offsets) - set(latest.offsets)):
            _tell(
                lost(f"{partition} was read to {before.offsets[partition]} and is gone", fail=fail)
            )
        remade = {
            topic for topic, known in before.ids.items() if latest.ids.get(topic, known) != known
        }
        for topic in sorted(remade):
            _tell(lost(f"{topic} was deleted and made again since it was last read", fail=fail))
        new = [
            partition
            for partition in latest.offsets
            if partition not in before.offsets or partition.topic in remade
        ]
        added = self._ask().ends(new, EARLIEST) if new else {}
        for partition, offset in sorted(added.items()):
            if offset > 0 and partition.topic not in remade:
                _tell(lost(f"new partition {partition} starts at {offset}, not at 0", fail=fail))
        begin = {
            partition: before.offsets[partition]
            for partition in latest.offsets
            if partition not in added
        } | added
        for partition, offset in sorted(begin.items()):
            if latest.offsets[partition] < offset and self._target is None:
                what = f"{partition} ends at {latest.offsets[partition]}, it was read to {offset}"
                _tell(lost(what, fail=fail))
        return begin, added

    def _must_wait(self, begin: Ends, ends: Ends) -> bool:
        """Tell whether the batch is to wait for more.

        It waits for minOffsetsPerTrigger, up to maxTriggerDelay.
        """
        least = self._options.min_offsets
        if least is None or self._target is not None:
            return False
        waited_ms = (time.monotonic() - self._triggered_at) * 1000
        return (
            sum(backlog(begin, ends).values()) < least
            and waited_ms < self._options.max_trigger_delay_ms
        )

    def _limited(self, begin: Ends, ends: Ends, limit: ReadLimit) -> Ends:
        if isinstance(limit, ReadMaxRows):
            ends = limit_rows(begin, ends, limit.max_rows)
        bytes_max = limit.max_bytes if isinstance(limit, ReadMaxBytes) else self._options.max_bytes
        behind = backlog(begin, ends)
        if bytes_max is not None and behind:
            weights = self._ask().record_bytes(
                {partition: begin[partition] for partition in behind}
            )
            ends = limit_bytes(begin, ends, bytes_max, weights)
        return ends


def _tell(loss: str) -> None:
    _log.warning("%s; going on without", loss)
