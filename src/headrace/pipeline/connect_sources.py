"""The rows of `hp.topic` and `hp.read` under `spark-pipelines`: streams of a Spark Connect session.

Spark's own runner knows neither our quarantine nor our checks, so a value that does not fit the
columns ends the flow. The brokers' address is a setting of the pipeline's specification.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.pipelines.graph_element_registry import get_active_graph_element_registry
from pyspark.sql import SparkSession

from headrace.pipeline.declarations import DeclarationError
from headrace.pipeline.graph import Graph
from headrace.pipeline.run.topic_streams import VALUE, ClusterAddress, finished, record_columns
from headrace.typed.ddl import parse_ddl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from headrace.pipeline.declarations import Sources, TopicSource

BOOTSTRAP = "spark.headrace.bootstrap.servers"
"""Setting with the brokers' address."""


def connect_sources() -> Sources | None:
    """Return the sources of a pipeline that `spark-pipelines` loads; None outside of it."""
    try:
        registry = get_active_graph_element_registry()
    except PySparkException:
        return None
    spark = SparkSession.getActiveSession()
    return None if isinstance(registry, Graph) or spark is None else ConnectSources(spark)


class ConnectSources:
    """Topics and views in the session of `spark-pipelines`."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def topic(self, source: TopicSource) -> DataFrame:
        """Return the stream of a topic. DeclarationError without the brokers' address."""
        bootstrap = self._spark.conf.get(BOOTSTRAP, "")
        if not bootstrap:
            raise DeclarationError(
                f"topic {source.name}: under spark-pipelines the configuration of "
                f'spark-pipeline.yml needs {BOOTSTRAP}: "host:port"'
            )
        if source.parser is not None:
            raise DeclarationError(
                f"topic {source.name}: parsers run under headrace pipeline only; declare columns "
                "for values that are JSON"
            )
        record = record_columns(source)
        rows = (
            self._spark.readStream.format("headrace")
            .options(**ClusterAddress(bootstrap).options())
            .option("subscribe", source.name)
            .option("startingOffsets", "earliest")
            .option("valueSchema", source.columns)
            .option("columns", ",".join(record))
            .option("mode", "FAILFAST")
            .load()
        )
        return finished(rows, source, _names(source, record))

    def read(self, name: str) -> DataFrame:
        """Return the stream of a view or table of the pipeline."""
        return self._spark.readStream.table(name)


def _names(source: TopicSource, record: Sequence[str]) -> list[str]:
    """Return the names of a topic's columns, without Spark, which refuses to analyse here."""
    try:
        values = [field.name for field in parse_ddl(source.columns).fields]
    except ValueError as error:
        raise DeclarationError(f"topic {source.name}: {source.columns!r}: {error}") from None
    kept = [f"_{name}" for name in record if name != VALUE] if source.meta else []
    return [*values, *kept]
