"""A run of a pipeline's flows on given records, micro-batch by micro-batch.

Each micro-batch is one file for each topic, so Spark forms the same batches, with state, watermarks
and late rows as in a run. A batch without rows follows each: in a run, Spark adds one when the
watermark has advanced, and only then are rows behind it late. Rows go to the test instead of tables
and topics.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyarrow.parquet import write_table

from headrace.pipeline.declarations import Outcome, sources
from headrace.pipeline.given.records import GivenTopic, Refused, decoded, given_record
from headrace.pipeline.intervals import interval_ms
from headrace.pipeline.plan.hidden_columns import hidden_columns
from headrace.pipeline.plan.prints import pickled_by_value
from headrace.pipeline.run.topic_streams import finished
from headrace.pipeline.views import Views
from headrace.spark.checks.check import FAILED
from headrace.spark.checks.division import Division
from headrace.spark.checks.options import RowChecks
from headrace.spark.checks.verdict import check_batch
from headrace.spark.checks.with_failed import with_failed
from headrace.spark.quarantine.refused import reason_of_check

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from headrace.pipeline.declarations import TopicSource
    from headrace.pipeline.given.records import DecodedTopic
    from headrace.pipeline.graph import DeclaredFlow
    from headrace.pipeline.load import Loaded

_FIRST_SECOND = 1_000_000_000


class GivenError(Exception):
    """A test names a table, a topic or a flow that the pipeline does not have."""


@dataclass
class FlowRows:
    """The outcome of one flow on given records."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    late: int = 0
    failed: dict[str, int] = field(default_factory=dict)
    """Number of rows that failed each check."""
    refused: list[tuple[str, Refused]] = field(default_factory=list)
    """Topic and record of rows that a check moved to the quarantine."""
    unknown_keys: dict[str, int] = field(default_factory=dict)
    """Keys of the records that no column has, by name."""
    hidden: frozenset[str] = frozenset()
    """Columns that hidden columns of topics are part of."""


@dataclass
class GivenRun:
    """The results of a pipeline for given records. Flows run when a test first asks for them."""

    spark: SparkSession
    loaded: Loaded
    topics: dict[str, GivenTopic] = field(default_factory=dict)
    _flows: dict[str, FlowRows] = field(default_factory=dict)
    _decoded: dict[TopicSource, DecodedTopic] = field(default_factory=dict)

    def given(self, topic: str, *batches: Sequence[object]) -> GivenRun:
        """Add the records of a topic: a list for each micro-batch, in step with other topics'.

        A record is a value (bytes, text, None, or a dictionary that is written as JSON), or one
        made by `record`. GivenError if a flow has run.
        """
        if self._flows:
            raise GivenError("give all records before the first result is asked for")
        records = [[given_record(value) for value in batch] for batch in batches]
        self.topics.setdefault(topic, GivenTopic(topic)).batches += records
        return self

    def rows(self, target: str, *columns: str) -> list[tuple[Any, ...]]:
        """Return the rows of a table or sink, all columns or those named.

        CheckFailedError if a check of `expect_or_fail` ends the run.

        Times are in UTC. Rows are in the order of their records if they have `_offset`, otherwise
        sorted within a micro-batch.
        """
        found = [row for flow in self._into(target) for row in flow.rows]
        for column in columns:
            if found and column not in found[0]:
                raise GivenError(f"{target} has no column {column}: {', '.join(found[0])}")
        return [tuple(row[name] for name in columns or row) for row in found]

    def late(self, target: str) -> int:
        """Return the number of rows that were too late for the state behind a table or sink.

        Spark counts them behind the first step of an aggregation: rows of one window and key in one
        micro-batch are one.
        """
        return sum(found.late for found in self._into(target))

    def failed(self, target: str, check: str) -> int:
        """Return the number of rows for a table or sink that failed a check."""
        found = [flow.failed for flow in self._into(target)]
        names = list(dict.fromkeys(name for each in found for name in each))
        if check not in names:
            raise GivenError(f"{target} has no check {check!r}: {', '.join(names) or 'none'}")
        return sum(each.get(check, 0) for each in found)

    def stale(self, target: str, now: datetime) -> list[str]:
        """Return the columns of a table or sink whose newest time is too old at `now`.

        They are those of `hp.fresh`; without a row they are stale.
        """
        found = []
        for flow in self._targeted():
            if flow.target != target:
                continue
            rows = self.ran(flow).rows
            for check in flow.fresh:
                times = [row[check.column] for row in rows if row[check.column] is not None]
                within = timedelta(milliseconds=interval_ms(check.within) or 0)
                if not times or max(times) + within < now:
                    found.append(check.column)
        return found

    def quarantined(self, topic: str) -> list[tuple[str, bytes | None]]:
        """Return reason and value of a topic's refused records, in their order.

        The reason of a check is `check: NAME`. A record that several flows refuse for the same
        reason is listed once.
        """
        for flow in self._targeted():
            if any(check.outcome is Outcome.QUARANTINE for check in flow.checks):
                self.ran(flow)
            elif flow.name not in self._flows:
                with self._streams() as streams, sources(streams):
                    flow.function()  # decodes the topics that it reads
        refused = [
            each
            for source, found in self._decoded.items()
            if source.name == topic
            for each in found.refused
        ]
        refused += [
            each for found in self._flows.values() for name, each in found.refused if name == topic
        ]
        ordered = sorted(dict.fromkeys(refused), key=lambda each: each.offset)
        return [(each.reason, each.value) for each in ordered]

    def refused(self) -> list[tuple[str, Refused]]:
        """Return topic and record of all records that decoders and checks have refused so far."""
        decoded = [
            (source.name, each) for source, found in self._decoded.items() for each in found.refused
        ]
        checked = [each for found in self._flows.values() for each in found.refused]
        return list(dict.fromkeys([*decoded, *checked]))

    def _targeted(self) -> list[DeclaredFlow]:
        graph = self.loaded.graph
        return [flow for flow in graph.flows if flow.target not in graph.views]

    def _into(self, target: str) -> list[FlowRows]:
        """Run the flows into a table or sink. GivenError if there are none."""
        flows = [flow for flow in self._targeted() if flow.target == target]
        if not flows:
            known = ", ".join(sorted({flow.target for flow in self._targeted()})) or "none"
            raise GivenError(f"no flow writes to {target}; tables and sinks: {known}")
        return [self.ran(flow) for flow in flows]

    def ran(self, flow: DeclaredFlow) -> FlowRows:
        """Run a flow, if it has not run yet; return its outcome."""
        if flow.name not in self._flows:
            with self._streams() as streams:
                with sources(streams):
                    rows = flow.function()
                result = self._run(flow, rows, streams)
                result.hidden = hidden_columns(rows, streams.sources)
                result.unknown_keys = self._unknown_keys(streams)
                self._flows[flow.name] = result
        return self._flows[flow.name]

    def _unknown_keys(self, streams: _GivenStreams) -> dict[str, int]:
        """Return the undeclared keys of the topics that a flow reads, the most frequent first."""
        counts: Counter[str] = Counter()
        for source in set(streams.sources.values()):
            counts.update(self._decoded[source].unknown_keys)
        return dict(counts.most_common())

    @contextmanager
    def _streams(self) -> Iterator[_GivenStreams]:
        with (
            tempfile.TemporaryDirectory(prefix="headrace-given-") as place,
            pickled_by_value(self.loaded.project.directory),
        ):
            yield _GivenStreams(self, Path(place), Views(self.loaded.graph))

    def _run(self, flow: DeclaredFlow, rows: DataFrame, streams: _GivenStreams) -> FlowRows:
        result = FlowRows(failed={check.name: 0 for check in flow.checks})
        checked = bool(flow.checks or flow.unique)
        batches: list[tuple[int, pa.Table]] = []
        query = (
            (with_failed(rows, flow.checks) if checked else rows)
            .writeStream.foreachBatch(
                lambda batch, number: batches.append((number, batch.toArrow()))
            )
            .outputMode("append")
            .trigger(availableNow=True)
            .option("checkpointLocation", str(streams.place / "checkpoint"))
            .start()
        )
        try:
            query.awaitTermination()
        finally:
            query.stop()
        for progress in query.recentProgress:
            for state in progress["stateOperators"]:
                result.late += state["numRowsDroppedByWatermark"]
        for number, batch in batches:
            if checked:
                self._divide(flow, batch, number // 2, result, streams)
            else:
                result.rows += sorted(batch.to_pylist(), key=_order)
        return result

    def _divide(
        self,
        flow: DeclaredFlow,
        batch: pa.Table,
        number: int,
        result: FlowRows,
        streams: _GivenStreams,
    ) -> None:
        """Divide the rows of a micro-batch by the checks that they fail."""
        topics = list(dict.fromkeys(streams.read_topics))
        checks = RowChecks(
            flow.checks, topics[0] if len(topics) == 1 else "", None, unique=flow.unique
        )
        division = Division(checks)
        for _ in division.divided(batch.to_batches()):
            pass  # The rows to write are chosen below, without those for the quarantine.
        check_batch(checks, division.tally, number)
        for name, count in division.tally.failed.items():
            result.failed[name] += count
        moving = [check.name for check in flow.checks if check.outcome is Outcome.QUARANTINE]
        kept = []
        for row in batch.to_pylist():
            failed = row.pop(FAILED)
            if moved := [name for name in moving if name in failed]:
                topic, offset = _only(topics, flow.name), row["_offset"]
                partition = row.get("_partition", 0)
                value = self.topics[topic].value(offset, partition)
                reason = reason_of_check(moved[0])
                result.refused.append((topic, Refused(offset, reason, value, partition)))
            elif not checks.dropping.intersection(failed):
                kept.append(row)
        result.rows += sorted(kept, key=_order)


@dataclass
class _GivenStreams:
    """Gives a flow's function the given records as streams."""

    run: GivenRun
    place: Path
    views: Views
    read_topics: list[str] = field(default_factory=list)
    sources: dict[str, TopicSource] = field(default_factory=dict)
    """Topics by the name of their directory in `place`."""

    def topic(self, source: TopicSource) -> DataFrame:
        """Return the stream of a topic; one without given records has none."""
        run = self.run
        topic = run.topics.setdefault(source.name, GivenTopic(source.name))
        if source not in run._decoded:
            run._decoded[source] = decoded(source, topic)
        found = run._decoded[source]
        directory = self.place / f"topic-{len(self.read_topics)}"
        directory.mkdir()
        self.read_topics.append(source.name)
        self.sources[directory.name] = source
        rounds = max(1, *(len(each.batches) for each in run.topics.values()))
        empty = decoded(source, GivenTopic(source.name, [[]])).batches[0]
        for number in range(2 * rounds):
            given, without = divmod(number, 2)
            rows = empty if without or given >= len(found.batches) else found.batches[given]
            file = directory / f"{number:06}.parquet"
            write_table(rows, file)
            # Spark reads files in the order of their times.
            os.utime(file, (_FIRST_SECOND + number,) * 2)
        streams = run.spark.readStream.schema(found.schema).option("maxFilesPerTrigger", 1)
        return finished(streams.parquet(str(directory)), source)

    def read(self, name: str) -> DataFrame:
        """Return a view's stream."""
        return self.views.read(name)


def _only(topics: list[str], flow: str) -> str:
    """Return the topic that a flow reads."""
    if len(topics) != 1:
        raise GivenError(
            f"{flow} reads {', '.join(topics)}: the topic of a row that a check moves to the "
            "quarantine is not known here; test a flow of one topic"
        )
    return topics[0]


def _order(row: dict[str, Any]) -> tuple[Any, ...]:
    if "_offset" in row:
        return (row.get("_partition", 0), row["_offset"])
    return tuple((value is not None, _text(value)) for value in row.values())


def _text(value: object) -> tuple[str, Any]:
    """Return a value as something that compares with values of its type."""
    kind = type(value).__name__
    return (kind, value) if isinstance(value, int | float | str | bytes) else (kind, str(value))
