"""The topics of a run as streams: `hp.topic` inside of a function that a flow calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from headrace.pipeline.run.parsed_rows import VALUE, parsed
from headrace.pipeline.topic_columns import columns_of, value_columns
from headrace.pipeline.views import Views
from headrace.spark.security import CONFIG_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from headrace.pipeline.declarations import Parser, TopicSource
    from headrace.pipeline.graph import Graph
    from headrace.pipeline.run.flow_quarantine import FlowQuarantine

_RECORD = ("partition", "offset", "timestamp")


@dataclass(frozen=True)
class ClusterAddress:
    """The brokers of a run, as options of the source and of the sink."""

    bootstrap: str
    config_file: str | None = None
    """A properties file with client settings, which all processes of the run can read."""

    def options(self) -> dict[str, str]:
        """Return the options."""
        file = {CONFIG_FILE: self.config_file} if self.config_file else {}
        return {"kafka.bootstrap.servers": self.bootstrap, **file}


def finished(rows: DataFrame, source: TopicSource, names: Sequence[str] | None = None) -> DataFrame:
    """Return decoded rows with the columns of `hp.topic` and its watermark.

    `rows`: with heartbeats, the column `_value` tells which records have no value. `names`: of the
    columns; None: Spark is asked to parse them.
    """
    if source.heartbeats and source.event_time is not None:
        # The time of a record without a value advances the watermark.
        time = sf.when(sf.col("_value").isNull(), sf.col("_timestamp")).otherwise(
            sf.col(source.event_time)
        )
        rows = rows.withColumn(source.event_time, time)
    rows = rows.select(*(names or columns_of(source).names))
    if source.event_time is not None and source.watermark is not None:
        rows = rows.withWatermark(source.event_time, source.watermark)
    return rows


def record_columns(source: TopicSource) -> list[str]:
    """Return the columns of the record that the rows, or their heartbeats, need."""
    key = ["key"] if source.meta == "key" else []
    value = [VALUE] if source.heartbeats else []
    return [*_RECORD, *key, *value]


@dataclass
class TopicStreams:
    """Gives the pipeline's functions the records of topics, from the earliest on."""

    spark: SparkSession
    cluster: ClusterAddress
    graph: Graph
    quarantine: FlowQuarantine | None = None
    """Where records that do not fit the columns are moved; None: they are left out."""
    topics: set[str] = field(default_factory=set)
    """The topics that were read."""
    used_quarantine: FlowQuarantine | None = None
    """The quarantine that the sink must publish; None if no topic was read that has one."""
    records: Callable[[TopicSource, dict[str, str]], DataFrame] | None = None
    """Returns the records of a topic, by more options of the source; None: a stream of them."""

    def __post_init__(self) -> None:
        self._views = Views(self.graph)

    def topic(self, source: TopicSource) -> DataFrame:
        """Return the stream of a topic."""
        self.topics.add(source.name)
        parser = source.parser
        rows = self._json(source) if parser is None else self._parsed(source, parser)
        return finished(rows, source)

    def read(self, name: str) -> DataFrame:
        """Return a view's stream."""
        return self._views.read(name)

    def _json(self, source: TopicSource) -> DataFrame:
        columns = ",".join(record_columns(source))
        options = {"valueSchema": source.columns, "columns": columns}
        if self.quarantine is None:
            return self._stream(source, {**options, "mode": "DROPMALFORMED"})
        self.used_quarantine = self.quarantine
        return self._stream(source, options | self.quarantine.source_options())

    def _parsed(self, source: TopicSource, parser: Parser) -> DataFrame:
        record = record_columns(source)
        columns = dict.fromkeys((VALUE, *record))
        records = self._stream(source, {"columns": ",".join(columns)})
        return parsed(records, source.name, parser.function, value_columns(source), record)

    def _stream(self, source: TopicSource, options: dict[str, str]) -> DataFrame:
        if self.records is not None:
            return self.records(source, options)
        reader = self.spark.readStream.format("headrace").options(
            **self.cluster.options(), subscribe=source.name, startingOffsets="earliest", **options
        )
        return reader.load()
