"""The topics of a run as streams: `hp.topic` inside of a function that a flow calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from headrace.pipeline.run.parsed_rows import parsed_values
from headrace.pipeline.topic_columns import columns_of
from headrace.pipeline.views import Views
from headrace.spark.quarantine.options import digest_of_schema
from headrace.spark.security import CONFIG_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from headrace.pipeline.declarations import TopicSource
    from headrace.pipeline.graph import Graph
    from headrace.pipeline.run.flow_quarantine import FlowQuarantine

VALUE = "value"
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
    topics: dict[str, str] = field(default_factory=dict)
    """The topics that were read, each with a digest of its columns and of its parser."""
    used_quarantine: FlowQuarantine | None = None
    """The quarantine that the sink must publish; None if no topic was read that has one."""
    records: Callable[[TopicSource, dict[str, str]], DataFrame] | None = None
    """Returns the records of a topic, by more options of the source; None: a stream of them."""
    directory: Path = Path()
    """The project's directory."""
    archive: str = ""
    """Name of the file with the project's modules that executors have."""
    fail_on_data_loss: bool = True
    """Whether the stream fails if records were deleted before they were read."""

    def __post_init__(self) -> None:
        self._views = Views(self.graph)

    def topic(self, source: TopicSource) -> DataFrame:
        """Return the stream of a topic."""
        if source.parser is None:
            digest = digest_of_schema(source.columns)
            decoding = {"valueSchema": source.columns}
        else:
            values = parsed_values(source, source.parser, self.directory, self.archive)
            digest, decoding = values.digest, values.to_option()
        self.topics[source.name] = digest
        if self.quarantine is None:
            decoding["mode"] = "DROPMALFORMED"
        else:
            self.used_quarantine = self.quarantine
            decoding |= self.quarantine.source_options()
        columns = ",".join(record_columns(source))
        return finished(self._stream(source, {**decoding, "columns": columns}), source)

    def read(self, name: str) -> DataFrame:
        """Return a view's stream."""
        return self._views.read(name)

    def _stream(self, source: TopicSource, options: dict[str, str]) -> DataFrame:
        # A replay of days reads the same records as the run that it is compared with.
        options = {"isolation.level": "read_committed", **options}
        if self.records is not None:
            return self.records(source, options)
        reader = self.spark.readStream.format("headrace").options(
            **self.cluster.options(),
            subscribe=source.name,
            startingOffsets="earliest",
            failOnDataLoss=str(self.fail_on_data_loss).lower(),
            **options,
        )
        return reader.load()
