"""The rows of a flow's function over bounded topics."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.pipeline.declarations import sources
from headrace.pipeline.intervals import interval_ms
from headrace.pipeline.plan.plan_step import PlanStep
from headrace.pipeline.replays.bounded_topics import BoundedTopics
from headrace.pipeline.replays.plan_windows import (
    has_outer_join,
    has_session_windows,
    longest_window_ms,
)
from headrace.pipeline.replays.replay import Offsets, Replay, ReplayRangeError
from headrace.pipeline.run.topic_streams import TopicStreams
from headrace.spark.tables.delta_parts.snapshot import snapshot_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.pipeline.declarations import TopicSource
    from headrace.pipeline.graph import DeclaredFlow, Graph
    from headrace.pipeline.replays.live_end import LiveEnd
    from headrace.pipeline.replays.replay_store import ReplayStore
    from headrace.pipeline.run.topic_streams import ClusterAddress

_TIME = "_timestamp"


@dataclass(frozen=True)
class BatchRows:
    """Makes the rows of one replay."""

    spark: SparkSession
    cluster: ClusterAddress
    graph: Graph
    end: LiveEnd
    store: ReplayStore
    replay: Replay
    slack_ms: int | None
    archive: str = ""
    """Name of the file with the project's modules that executors have."""

    def of(self, flow: DeclaredFlow) -> tuple[DataFrame, Offsets]:
        """Return the flow's rows and the offsets that they are made from.

        ReplayRangeError if the live flow has not written some of these windows yet.
        """
        rows, offsets = self._rows(flow, 0)
        plan = PlanStep.of(rows._jdf.queryExecution().analyzed())
        window_ms = longest_window_ms(plan)
        self._check_closed(plan, window_ms)
        if window_ms and self.replay.range is not None:
            # A window that ends on the first day has records from before.
            rows, offsets = self._rows(flow, window_ms)
        return rows, offsets

    def _rows(self, flow: DeclaredFlow, earlier_ms: int) -> tuple[DataFrame, Offsets]:
        def since_ms(source: TopicSource) -> int | None:
            since = self.since_ms(source)
            return None if since is None else since - earlier_ms

        topics = BoundedTopics(self.spark, self.cluster, self.end, since_ms)
        streams = TopicStreams(
            self.spark, self.cluster, self.graph, records=topics.load, archive=self.archive
        )
        with sources(streams):
            return flow.function(), topics.offsets

    def since_ms(self, source: TopicSource) -> int | None:
        """Return the time of the earliest record that is read; None: all records.

        It is before the first day by the slack, else by the delay of the topic's watermark and so
        that records of the replaced rows are read.
        """
        range_ = self.replay.range
        if range_ is None:
            return None
        first = _midnight_ms(range_.first)
        if self.slack_ms is not None:
            return first - self.slack_ms
        delay = None if source.watermark is None else interval_ms(source.watermark)
        earliest = self._earliest_ms()
        known = [
            *([] if delay is None else [first - delay]),
            *([] if earliest is None else [min(first, earliest)]),
        ]
        return min(known, default=None)

    def _earliest_ms(self) -> int | None:
        """Return the time of the earliest record of the replaced rows; None if they lack it."""
        snapshot = snapshot_of(self.store.table(self.replay.table), self.replay.version)
        if _TIME not in snapshot.columns.names:
            return None
        found = None
        for path in self.replay.removed:
            with pq.ParquetFile(snapshot.location / path) as file:
                for rows in file.iter_batches(columns=[_TIME]):
                    least = pc.min(rows.column(0)).as_py()
                    if least is not None and (found is None or least < found):
                        found = least
        return None if found is None else int(found.timestamp() * 1000)

    def _check_closed(self, plan: PlanStep, window_ms: int) -> None:
        """Raise ReplayRangeError if the live flow has still to write windows of the range."""
        if not self.end.stateful:
            return
        if has_outer_join(plan):
            raise ReplayRangeError(
                "the flow has an outer join, whose rows without a match are written later: it is "
                "not replayed"
            )
        if has_session_windows(plan):
            raise ReplayRangeError(
                "the flow has session windows, whose length is known only when they close: it is "
                "not replayed"
            )
        range_, watermark = self.replay.range, self.end.watermark_ms
        kinds = {step.kind for step in plan.steps() if step.has_state_on_a_stream}
        if range_ is not None and kinds - {"Aggregate"}:
            raise ReplayRangeError(
                "the flow keeps state of all days, such as ids that it has seen: leave --from and "
                "--to out"
            )
        if "Aggregate" not in kinds:
            return
        if range_ is None:
            raise ReplayRangeError(
                "the flow writes a window when it closes: give --from and --to, days whose windows "
                "are closed"
            )
        needed = _midnight_ms(range_.end) + window_ms
        if watermark is None or watermark < needed:
            shown = "unknown" if watermark is None else _text(watermark)
            raise ReplayRangeError(
                f"--to: windows before {range_.end} may be open: the flow's watermark is {shown}, "
                f"and must have reached {_text(needed)}"
            )


def _midnight_ms(day: str) -> int:
    return int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() * 1000)


def _text(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(sep=" ", timespec="seconds")
