"""Streaming reads: micro-batches planned on the driver."""

import logging
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from headrace.client.calls.offsets import EARLIEST, LATEST
from headrace.model.nouns import TopicPartition
from headrace.spark.errors import DataLossError
from headrace.spark.source.cluster import Cluster, View
from headrace.spark.source.columns import columns_of
from headrace.spark.source.commits import Commits
from headrace.spark.source.connections import kept_connections
from headrace.spark.source.offsets import Ends, Position
from headrace.spark.source.options import Options
from headrace.spark.source.plan import backlog, limit_bytes, limit_rows, parts_of
from headrace.spark.source.quarantine_topics import QuarantineTopics
from headrace.spark.source.resume import Resumption, refuse_another_origin, resume, skip_older
from headrace.spark.source.tasks import ranges_of, read_task, tasks_of, warn_of_ignored

_log = logging.getLogger(__name__)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans a streaming read's micro-batches on the driver; its `read` runs on executors.

    All that must be equal when a batch is repeated is in the offsets, never in this object.
    """

    def __init__(self, options: Options, schema: StructType, *, commits: bool = True) -> None:
        """Create a reader; nothing is opened yet.

        `commits`: commit the offsets to a consumer group; not needed if a listener does it.
        """
        self._options = options
        self._columns = columns_of(options, schema)
        # Only the source knows secrets given as options, so a listener could not connect.
        commits = commits or bool(options.fetching.security.given)
        self._commits = Commits(options.bootstrap, options.fetching) if commits else None
        self._cluster: Cluster | None = None
        self._view: View | None = None
        self._target: Position | None = None
        self._latest: Position | None = None
        self._weights: dict[TopicPartition, float] | None = None
        self._group = options.group or ""
        self._to_skip = options.start_by_time_always
        self._triggered_at = time.monotonic()
        self._quarantine = QuarantineTopics(options)

    def __getstate__(self) -> dict[str, Any]:
        of_the_driver = ("_cluster", "_view", "_target", "_latest", "_weights", "_commits")
        return {**self.__dict__, **dict.fromkeys(of_the_driver)}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the offsets at which a query without a checkpoint starts."""
        options = self._options
        warn_of_ignored(options)
        if options.group_prefix:
            self._group = f"{options.group_prefix}-{uuid.uuid4()}"
        self._to_skip = False
        view = self._look()
        offsets = self._quarantine.initial_offsets(self._ask(), view)
        by_time = options.starting.timestamp is not None or options.starting.timestamps is not None
        earliest = not by_time and options.starting.offsets == EARLIEST
        first = self._quarantine.first_offsets(offsets)
        return self._position(view, offsets, earliest=earliest, first=first).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit per trigger: maximum offsets, else maximum bytes, else minimum offsets.

        Spark passes it to `latestOffset`, which also applies the other limits.
        """
        options = self._options
        if options.max_offsets is not None:
            return ReadMaxRows(options.max_offsets)
        if options.max_bytes is not None:
            return ReadMaxBytes(options.max_bytes)
        if options.min_offsets is not None:
            return ReadMinRows(options.min_offsets)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the current log ends as the last offsets that `latestOffset` returns."""
        self._target = self._look_at_ends()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the end offsets of the next batch; `start` if there is nothing to read."""
        before = Position.of_json(start)
        self._group = before.group or self._group
        latest = self._target or self._look_at_ends()
        self._latest = latest
        resumption = self._resume(before, latest)
        begin = resumption.begin
        ends = {partition: max(end, begin[partition]) for partition, end in latest.offsets.items()}
        if not isinstance(limit, ReadAllAvailable) and self._must_wait(begin, ends):
            return start
        self._weights = None
        ends = self._limited(begin, ends, limit)
        moved = bool(resumption.added) or ends != before.offsets or latest.ids != before.ids
        if not moved:
            return start
        self._report(resumption)
        self._to_skip = False
        self._triggered_at = time.monotonic()
        return self._position(
            self._current_view(),
            ends,
            added=resumption.added,
            parts=self._parts(begin, ends),
            skipped=resumption.skipped,
            first=before.first,
        ).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the end of what can be read, for the query's progress."""
        return None if self._latest is None else self._latest.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a batch: equal whenever the batch is repeated."""
        before, after = Position.of_json(start), Position.of_json(end)
        ranges = ranges_of({**before.offsets, **after.added}, after.offsets)
        parts = after.parts
        if parts is None:  # An older release wrote these offsets: split by the options, as it did.
            parts = parts_of(ranges, self._options.splitting)
        from_earliest = after.added.keys() - after.skipped.keys()
        if before.earliest:
            from_earliest |= before.offsets.keys() - after.added.keys()
        topics = {range_.topic for range_ in ranges}
        self._quarantine.prepare(self._ask(), self._current_view(), topics)
        return tasks_of(
            self._options,
            self._columns,
            ranges,
            parts,
            self._current_view().leaders(),
            after.ids,
            from_earliest,
            after.first,
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield one task's rows. Runs on an executor."""
        return read_task(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Commit the batch's offsets to the query's consumer group in the background.

        A failure is only logged. Spark does not call this for the last batch of
        Trigger.AvailableNow; `attach` commits that one, too.
        """
        position = Position.of_json(end)
        if position.group and self._commits is not None:
            self._commits.show(position.group, position.offsets)

    def stop(self) -> None:
        """Close the driver's connections."""
        if self._commits is not None:
            self._commits.close()
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None
        kept_connections.close()

    def _ask(self) -> Cluster:
        if self._cluster is None:
            self._cluster = Cluster(self._options.bootstrap, self._options.fetching)
        return self._cluster

    def _look(self) -> View:
        self._quarantine.prepare_retries(self._ask())
        self._view = self._ask().look(self._quarantine.subscription)
        return self._view

    def _current_view(self) -> View:
        """Return the metadata fetched last; fetch it first if a batch is being repeated."""
        return self._view or self._look()

    def _look_at_ends(self) -> Position:
        view = self._look()
        return self._position(view, self._ask().ends(view.partitions(), LATEST, view))

    def _position(self, view: View, offsets: Ends, **more: Any) -> Position:  # noqa: ANN401
        security = self._options.fetching.security
        return Position(
            self._options.bootstrap, offsets, self._group, view.ids(), cluster=view.cluster_id,
            config_file=security.config_file or "", told_by_source=bool(security.given),
            **{"parts": {}} | more,
        )  # fmt: skip

    def _resume(self, before: Position, latest: Position) -> Resumption:
        """Return where the batch begins; DataLossError or SourceError if it cannot continue."""
        refuse_another_origin(before, latest)
        cluster, options = self._ask(), self._options
        resumption = resume(
            before,
            latest,
            self._quarantine.subscription,
            lambda partitions: cluster.ends(partitions, EARLIEST),
            lambda partitions: cluster.ends(partitions, LATEST, read_committed=False),
        )
        if resumption.losses and options.fail_on_data_loss:
            self._quarantine.refuse_unread_replays(before.offsets, resumption.added)
            raise DataLossError(resumption.losses[0])
        if self._to_skip:
            skip_older(resumption, cluster.not_before(options.starting, sorted(resumption.begin)))
        return resumption

    def _report(self, resumption: Resumption) -> None:
        for loss in resumption.losses:
            _log.warning("%s; continuing without these records", loss)
        for partition in resumption.dropped:
            _log.warning("the query no longer subscribes to %s: its offset is dropped", partition)
        for partition, (begin, end) in resumption.skipped.items():
            _log.warning(
                "offsets %d to %d of %s are skipped: they are older than the starting timestamp",
                begin, end - 1, partition,
            )  # fmt: skip

    def _must_wait(self, begin: Ends, ends: Ends) -> bool:
        """Return whether the batch must wait for more offsets.

        It waits for minOffsetsPerTrigger, at most maxTriggerDelay.
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
        if isinstance(limit, ReadAllAvailable):
            return ends
        if isinstance(limit, ReadMaxRows):
            ends = limit_rows(begin, ends, limit.max_rows)
        bytes_max = limit.max_bytes if isinstance(limit, ReadMaxBytes) else self._options.max_bytes
        if bytes_max is not None and backlog(begin, ends):
            ends = limit_bytes(begin, ends, bytes_max, self._weigh(begin, ends))
        return ends

    def _parts(self, begin: Ends, ends: Ends) -> dict[TopicPartition, int]:
        splitting = self._options.splitting
        weights = None
        if splitting.max_bytes is not None and backlog(begin, ends):
            weights = self._weigh(begin, ends)
        return parts_of(ranges_of(begin, ends), splitting, weights)

    def _weigh(self, begin: Ends, ends: Ends) -> dict[TopicPartition, float]:
        """Return the approximate bytes of one offset by partition, sampled once for each batch."""
        if self._weights is None:
            behind = {partition: begin[partition] for partition in backlog(begin, ends)}
            self._weights = self._ask().record_bytes(behind, self._current_view())
        return self._weights
