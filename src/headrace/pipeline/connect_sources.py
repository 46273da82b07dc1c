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
from headrace.pipeline.run.topic_streams import ClusterAddress, TopicStreams

if TYPE_CHECKING:
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
        address = ClusterAddress(bootstrap)

        def records(source: TopicSource, options: dict[str, str]) -> DataFrame:
            strict = {**options, "mode": "FAILFAST"} if "mode" in options else options
            reader = self._spark.readStream.format("headrace").options(**address.options())
            return reader.options(
                subscribe=source.name, startingOffsets="earliest", **strict
            ).load()

        return TopicStreams(self._spark, address, Graph(), records=records).topic(source)

    def read(self, name: str) -> DataFrame:
        """Return the stream of a view or table of the pipeline."""
        return self._spark.readStream.table(name)
