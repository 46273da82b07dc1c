"""Compute a flow again as a batch, beside its table, and compare the two.

The same function runs on bounded DataFrames, so rows that came too late for their window are
counted, too. Its rows of the range are written to a Delta table of the replay.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.pipeline.declarations import DeclarationError, Outcome
from headrace.pipeline.diffs.table_diff import POSITION
from headrace.pipeline.load import loaded
from headrace.pipeline.replays.batch_rows import BatchRows
from headrace.pipeline.replays.begin import begin_replay, end_building
from headrace.pipeline.replays.live_end import LiveEnd, live_end
from headrace.pipeline.replays.replay import (
    Replay,
    ReplayFailedError,
    UnknownTableFlowError,
)
from headrace.pipeline.replays.replay_store import ReplayStore
from headrace.pipeline.replays.replayed_range import partition_range, rows_in
from headrace.pipeline.replays.steps import compare_replay, discard_replay
from headrace.pipeline.run.client_file import client_file
from headrace.pipeline.run.failures import FlowPlace, failure_of
from headrace.pipeline.run.planned_batch import newest_batch
from headrace.pipeline.run.run_session import run_session
from headrace.pipeline.run.shipped_code import shipped
from headrace.pipeline.run.storage import Storage
from headrace.pipeline.run.targets import Targets
from headrace.pipeline.validate import findings_of
from headrace.spark.batch_counts import take_counts
from headrace.spark.checks.options import RowChecks
from headrace.spark.checks.with_failed import with_failed
from headrace.spark.tables.options import parse_table_options
from headrace.spark.tables.sink import NAME as TABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import date

    from pyspark.sql import DataFrame, SparkSession

    from headrace.pipeline.graph import DeclaredFlow, Graph
    from headrace.pipeline.load import Loaded
    from headrace.pipeline.project import Project
    from headrace.pipeline.run.topic_streams import ClusterAddress


@dataclass(frozen=True)
class ReplayRequest:
    """A flow to compute again."""

    project: Project
    bootstrap: str
    settings: Mapping[str, str] = field(repr=False)
    """Client settings by Kafka's names; may hold secrets."""
    flow: str
    first: date | None
    """First day; None for both: the whole table."""
    end: date | None
    """The day after the last."""
    slack_ms: int | None = None
    """How much earlier than the range records may be; None: see `BatchRows.since_ms`."""
    on: tuple[str, ...] = ()
    """Columns that identify a row; empty: the record's position, if rows have it."""


def build_replay(
    request: ReplayRequest,
    show: Callable[[str], None] = lambda line: None,
    spark: SparkSession | None = None,
) -> Replay:
    """Compute a replay, write it beside the table, and return it with its comparison.

    `show` gets lines about the progress. `spark`: a session to use; None: one is started.
    On any error the replay is discarded. UnknownTableFlowError, DeclarationError, ReplayRangeError,
    RecordsLostError before anything is written; ReplayFailedError; ReplayError, TableError.
    """
    project = request.project
    storage = Storage.of(project)
    with ExitStack() as stack:
        if spark is None:
            messages = storage.runs / "replays.log"
            messages.parent.mkdir(parents=True, exist_ok=True)
            spark = stack.enter_context(run_session(project, messages))
        found = stack.enter_context(loaded(project))
        findings, _ = findings_of(spark, found)
        if findings:
            raise DeclarationError(str(findings[0]))
        storage.claim(project.name, project.profile)
        flow = _flow(found.graph, request.flow)
        archive = stack.enter_context(shipped(spark, found, storage))
        cluster = stack.enter_context(client_file(spark, request.bootstrap, request.settings))
        return _Build(request, storage, found, flow, cluster, spark, show, archive).replay()


def _flow(graph: Graph, name: str) -> DeclaredFlow:
    flows = {flow.name: flow for flow in graph.flows if flow.target in graph.tables}
    if name not in flows:
        known = ", ".join(flows) or "none"
        raise UnknownTableFlowError(f"there is no flow {name} to a table; there are: {known}")
    flow = flows[name]
    if graph.tables[flow.target].format != "delta":
        raise DeclarationError(f"{name}: only Delta tables are replayed; {flow.target} is not one")
    others = [other.name for other in flows.values() if other.target == flow.target]
    if len(others) > 1:
        raise DeclarationError(
            f"{flow.target} is written by {', '.join(others)}: a table of several flows cannot be "
            "replayed, because a file does not tell whose rows it has"
        )
    return flow


@dataclass(frozen=True)
class _Build:
    """A replay, from the declarations to the comparison."""

    request: ReplayRequest
    storage: Storage
    found: Loaded
    flow: DeclaredFlow
    cluster: ClusterAddress
    spark: SparkSession
    show: Callable[[str], None]
    archive: str
    """Name of the file with the project's modules that executors have."""

    def replay(self) -> Replay:
        store, flow, request = ReplayStore(self.storage.root), self.flow, self.request
        options = self._options()
        range_ = partition_range(flow.target, options["partitionBy"], request.first, request.end)
        checkpoint = self.storage.checkpoint(flow.target, flow.name)
        # Read before the table: its rows of this batch and of earlier ones are in every later
        # version.
        committed = newest_batch(checkpoint / "commits")
        keys = [key for key in (request.on, POSITION) if key]
        now_ms = int(time.time() * 1000)
        table = self.storage.table(flow.target).name
        replay = begin_replay(store, flow.name, table, range_, now_ms, keys)
        try:
            rows = self._rows(store, replay, self._end(replay, options, committed))
            frame, offsets = rows.of(self.flow)
            replay = store.save(replace(replay, offsets=offsets))
            self._show_reading(replay)
            if range_ is not None:
                frame = rows_in(frame, options["partitionBy"], range_)
            self._write(frame, replay, {**options, "path": str(store.built(replay))})
            end_building(store, replay)
            return compare_replay(store, replay.id)
        except BaseException:
            discard_replay(store, replay.id)
            raise

    def _options(self) -> dict[str, str]:
        targets = Targets(
            self.found.graph, self.storage, self.cluster, self.request.project.identity
        )
        return targets.of_table(self.flow)

    def _end(self, replay: Replay, options: Mapping[str, str], committed: int | None) -> LiveEnd:
        from headrace.spark.tables.delta import Delta

        checkpoint = self.storage.checkpoint(self.flow.target, self.flow.name)
        given = parse_table_options(
            {**options, "checkpointLocation": str(checkpoint)}, streaming=True
        )
        table = Delta(given, replay.version)
        marker = table.last_marker()
        ends = () if marker is None else table.ends_of(marker)
        return live_end(checkpoint, committed, marker, ends)

    def _show_reading(self, replay: Replay) -> None:
        for topic, partitions in replay.offsets.items():
            records = sum(end - first for first, end in partitions.values())
            self.show(
                f"reads up to {records:,} records of {topic}, writes {replay.days} beside "
                f"the table as {replay.table}@{replay.id}"
            )

    def _rows(self, store: ReplayStore, replay: Replay, end: LiveEnd) -> BatchRows:
        return BatchRows(
            self.spark,
            self.cluster,
            self.found.graph,
            end,
            store,
            replay,
            self.request.slack_ms,
            self.archive,
        )

    def _write(self, rows: DataFrame, replay: Replay, options: Mapping[str, str]) -> None:
        """Write the rows that pass the flow's checks; a batch of its own, with the replay's id."""
        given = {name: text for name, text in options.items() if name != "pipeline"}
        given |= {"txnAppId": f"replay-{replay.id}", "txnVersion": "0"}
        with tempfile.TemporaryDirectory(prefix="headrace-replay-") as counts:
            if self.flow.checks:
                topic = next(iter(replay.offsets)) if len(replay.offsets) == 1 else ""
                given |= RowChecks(self.flow.checks, topic, Path(counts)).to_option()
                rows = with_failed(rows, self.flow.checks)
            try:
                rows.write.format(TABLE).options(**given).mode("append").save()
            except Exception as error:
                raise self._failed(error) from error
            self._show_checks(take_counts(Path(counts), 0) or {})

    def _show_checks(self, counts: Mapping[str, Any]) -> None:
        """Show how many rows fail each check. A replay moves no record to the quarantine."""
        for check in self.flow.checks:
            if failed := counts.get("failed", {}).get(check.name):
                left_out = check.outcome in (Outcome.DROP, Outcome.QUARANTINE)
                self.show(
                    f"check {check.name!r}: {failed:,} of {counts['rows']:,} rows failed"
                    f"{' and are left out' if left_out else ''}"
                )

    def _failed(self, error: Exception) -> ReplayFailedError:
        directory = self.request.project.directory
        checkpoint = self.storage.checkpoint(self.flow.target, self.flow.name)
        place = FlowPlace(self.flow.name, directory, checkpoint, self.flow.checks)
        failure = failure_of(str(error), place)
        return ReplayFailedError(failure.text, failure.code)
