"""Declarations under `spark-pipelines`: `hp.topic` and `hp.read` are streams of Spark Connect.

Spark's own runner knows neither our quarantine nor our checks. So a value that does not fit the
columns ends the flow, a check that drops rows is a filter, and one that needs the writer or the
quarantine is refused. The brokers' address is a setting of the pipeline's specification.
"""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING, Any, cast

from pyspark.errors import PySparkException
from pyspark.pipelines.graph_element_registry import get_active_graph_element_registry
from pyspark.sql import SparkSession

from headrace.pipeline.declarations import Check, DeclarationError, Function, Outcome
from headrace.pipeline.graph import Graph
from headrace.pipeline.run.topic_streams import VALUE, ClusterAddress, finished, record_columns
from headrace.spark.checks.check import Unique
from headrace.typed.ddl import parse_ddl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from headrace.pipeline.declarations import TopicSource
    from headrace.spark.checks.check import Fresh

BOOTSTRAP = "spark.headrace.bootstrap.servers"
"""Setting with the brokers' address."""


def connect_sources() -> ConnectSources | None:
    """Return the runner of a pipeline that `spark-pipelines` loads; None outside of it."""
    try:
        registry = get_active_graph_element_registry()
    except PySparkException:
        return None
    return None if isinstance(registry, Graph) else ConnectSources()


class ConnectSources:
    """Topics, views and checks in the session of `spark-pipelines`."""

    def topic(self, source: TopicSource) -> DataFrame:
        """Return the stream of a topic. DeclarationError without the brokers' address."""
        spark = _session()
        bootstrap = spark.conf.get(BOOTSTRAP, "")
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
            spark.readStream.format("headrace")
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
        return _session().readStream.table(name)

    def checked(self, function: Function, check: Check | Unique | Fresh) -> Function:
        """Return the function; one whose rows a check drops is filtered.

        A check that only counts is a warning. DeclarationError for one that ends a run or moves
        records.
        """
        outcome = check.outcome if isinstance(check, Check) else None
        if isinstance(check, Unique) or outcome in (Outcome.FAIL, Outcome.QUARANTINE):
            raise DeclarationError(
                f"check {check.name!r}: spark-pipelines cannot evaluate it, because only headrace "
                "pipeline ends a run or moves records to the quarantine: use expect_or_drop, or "
                "run the project with headrace pipeline"
            )
        if isinstance(check, Check) and outcome is Outcome.DROP:
            return _filtered(function, check.condition)
        warnings.warn(
            f"check {check.name!r} is not evaluated under spark-pipelines: it counts rows, which "
            "headrace pipeline reports",
            stacklevel=3,
        )
        return function


def _filtered(function: Function, condition: str) -> Function:
    """Return a function whose rows are those for which the condition is true."""
    made: Any = function

    @functools.wraps(made)
    def filtered() -> DataFrame:
        rows: DataFrame = made().where(condition)
        return rows

    return cast("Function", filtered)


def _session() -> SparkSession:
    """Return the session of `spark-pipelines`. DeclarationError without one."""
    spark = SparkSession.getActiveSession()
    if spark is None:
        raise DeclarationError(
            "hp.topic and hp.read are called outside of a run: spark-pipelines has no session here"
        )
    return spark


def _names(source: TopicSource, record: Sequence[str]) -> list[str]:
    """Return the names of a topic's columns, without Spark, which refuses to analyse here."""
    try:
        values = [field.name for field in parse_ddl(source.columns).fields]
    except ValueError as error:
        raise DeclarationError(f"topic {source.name}: {source.columns!r}: {error}") from None
    kept = [f"_{name}" for name in record if name != VALUE] if source.meta else []
    return [*values, *kept]
