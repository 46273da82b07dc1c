"""The writer of each flow: a table or a topic, with the options of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.pipeline.declarations import DeclarationError
from headrace.pipeline.run.flow_quarantine import SINK_OPTIONS_TAKEN as QUARANTINE_TAKEN
from headrace.spark.checks.options import RowChecks
from headrace.spark.checks.with_failed import with_failed
from headrace.spark.tables.sink import NAME as TABLE

if TYPE_CHECKING:
    from pyspark.pipelines.output import Sink
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from headrace.pipeline.graph import DeclaredFlow, Graph
    from headrace.pipeline.run.storage import Storage
    from headrace.pipeline.run.topic_streams import ClusterAddress, TopicStreams

DEFAULT_FORMAT = "parquet"
TOPIC = "headrace"
SINK_OPTIONS_TAKEN = (
    "pipeline",
    "sink",
    "checkpointLocation",
    "configFile",
    "delivery",
    *QUARANTINE_TAKEN,
)
"""Options of a topic sink that the run chooses."""


@dataclass(frozen=True)
class Targets:
    """Makes the writers of one run."""

    graph: Graph
    storage: Storage
    cluster: ClusterAddress
    pipeline: str
    """Name under which tables and topics know the pipeline; it contains the profile's."""

    def writer(
        self, flow: DeclaredFlow, rows: DataFrame, streams: TopicStreams
    ) -> DataStreamWriter:
        """Return the writer of a flow's rows to its target, without a trigger.

        `streams`: the flow has read its topics from them.
        """
        if flow.target in self.graph.tables:
            kind, options = TABLE, self.of_table(flow)
        else:
            kind, options = TOPIC, self._of_topic(flow, self.graph.sinks[flow.target])
        if streams.used_quarantine is not None:
            options |= self.cluster.options() | streams.used_quarantine.sink_options()
        if flow.check_names:
            options |= self._checks(flow, streams).to_option()
            rows = with_failed(rows, flow.checks)
        checkpoint = str(self.storage.checkpoint(flow.target, flow.name))
        return (
            rows.writeStream.format(kind)
            .queryName(f"{self.pipeline}.{flow.name}")
            .options(**options, checkpointLocation=checkpoint)
        )

    def _checks(self, flow: DeclaredFlow, streams: TopicStreams) -> RowChecks:
        """Return the checks of a flow, with the topic whose records its rows are."""
        only = len(streams.topics) == 1
        topic, digest = next(iter(streams.topics.items())) if only else ("", "")
        counts = self.storage.checks(flow.target, flow.name)
        return RowChecks(flow.checks, topic, counts, digest, unique=flow.unique, fresh=flow.fresh)

    def of_table(self, flow: DeclaredFlow) -> dict[str, str]:
        """Return the options of a flow's table."""
        table = self.graph.tables[flow.target]
        kind = table.format or DEFAULT_FORMAT
        shared = sum(other.target == flow.target for other in self.graph.flows) > 1
        # Iceberg finds a table by its name in a catalog, which is next to its files.
        named = {"table": f"{self.pipeline}.{table.name}"} if kind == "iceberg" else {}
        return {
            "tableFormat": kind,
            "path": str(self.storage.table(table.name)),
            "pipeline": f"{self.pipeline}.{flow.name}",
            "partitionBy": ",".join(table.partition_cols or ()),
            "shared": "true" if shared else "false",
            **named,
        }

    def _of_topic(self, flow: DeclaredFlow, sink: Sink) -> dict[str, str]:
        lowered = {name.lower() for name in sink.options}
        for name in SINK_OPTIONS_TAKEN:
            if name.lower() in lowered:
                raise DeclarationError(f"{sink.name}: leave the option {name} out: a run sets it")
        # A new version begins at the earliest records, not after the last batch of the one before.
        version = self.storage.version(sink.name)
        name = f"{flow.name}.v{version}" if version else flow.name
        own = {"pipeline": self.pipeline, "sink": name}
        return {**self.cluster.options(), **sink.options, **own}
