"""Prints of all flows of a project, made on streams without rows."""

from __future__ import annotations

import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import cloudpickle

from headrace.pipeline.declarations import sources
from headrace.pipeline.plan.analysed import analysed
from headrace.pipeline.plan.flow_print import FlowPrint, PrintedSource, PrintedTarget
from headrace.pipeline.plan.function_digest import function_digest
from headrace.pipeline.plan.state_schema import run_without_rows
from headrace.pipeline.topic_columns import columns_of
from headrace.pipeline.validate import EmptyStreams

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from headrace.pipeline.declarations import TopicSource
    from headrace.pipeline.graph import DeclaredFlow, Graph
    from headrace.pipeline.load import Loaded

DEFAULT_FORMAT = "parquet"
SCRATCH = "headrace-plan-"
"""Beginning of the names of scratch directories."""
_SETTINGS = {
    # A scratch run creates a state store for each partition; their number is not in the print.
    "spark.sql.shuffle.partitions": "1",
    # Columns that are NOT NULL in the topic are so in the print, although files back the stream.
    "spark.sql.streaming.fileSource.schema.forceNullable": "false",
}


def prints_of(
    spark: SparkSession, loaded: Loaded, place: Path | None = None
) -> dict[str, FlowPrint]:
    """Return the prints of a project's flows into tables and sinks, by the flow's name.

    Each flow runs once without rows, 1 to 10 s. Nothing is written but a temporary directory, which
    is deleted; it is in `place`, which driver and executors see at the same path. Errors of the
    flows' functions are raised; `findings_of` lists them first.
    """
    graph, directory = loaded.graph, loaded.project.directory
    with (
        tempfile.TemporaryDirectory(prefix=SCRATCH, dir=place) as scratch,
        _settings(spark),
        pickled_by_value(directory),
    ):
        given = EmptyStreams(spark, loaded, Path(scratch))
        with sources(given):
            return {
                flow.name: _print(given, flow, flow.function())
                for flow in graph.flows
                if flow.target not in graph.views
            }


def _print(given: EmptyStreams, flow: DeclaredFlow, rows: DataFrame) -> FlowPrint:
    directory = given.loaded.project.directory
    found = analysed(given.spark, rows, given.places, directory)
    with tempfile.TemporaryDirectory(prefix="checkpoint-", dir=given.place) as checkpoint:
        operators = run_without_rows(rows, Path(checkpoint))
    stateful, functions = found.cut(len(operators))
    return FlowPrint(
        target=target_of(given.loaded.graph, flow),
        sources=tuple(_source(source, used, directory) for source, used in found.topics),
        operators=operators,
        stateful=tuple(stateful),
        functions=functions,
        columns=tuple(
            (column.name, column.dataType.simpleString(), column.nullable)
            for column in rows.schema.fields
        ),
        checks=(
            *(
                (check.name, check.condition, check.outcome.value, check.at_least)
                for check in flow.checks
            ),
            *((check.name, "", "unique", 1.0) for check in flow.unique),
            *((check.name, check.within, "fresh", 1.0) for check in flow.fresh),
        ),
        whole=found.whole,
    )


def target_of(graph: Graph, flow: DeclaredFlow) -> PrintedTarget:
    """Return the table or sink that a flow writes to."""
    if (sink := graph.sinks.get(flow.target)) is not None:
        return PrintedTarget(flow.target, "sink", sink.options.get("topic", ""))
    table = graph.tables[flow.target]
    partitions = tuple(table.partition_cols or ())
    return PrintedTarget(flow.target, "table", table.format or DEFAULT_FORMAT, partitions)


def _source(source: TopicSource, used: tuple[str, ...], directory: Path) -> PrintedSource:
    columns = ", ".join(
        f"{column.name} {column.dataType.simpleString()}{'' if column.nullable else ' NOT NULL'}"
        for column in columns_of(source).fields
    )
    parser = None
    if source.parser is not None:
        parser = function_digest(source.parser.function, directory)
    return PrintedSource(source.name, columns, parser, source.heartbeats, used)


@contextmanager
def _settings(spark: SparkSession) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in _SETTINGS}
    try:
        for name, value in _SETTINGS.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, found in before.items():
            if found is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, found)


@contextmanager
def pickled_by_value(directory: Path) -> Iterator[None]:
    """Let workers run the project's functions without the project's directory on their path."""
    modules = [
        module
        for module in list(sys.modules.values())
        if (getattr(module, "__file__", None) or "").startswith(f"{directory}/")
    ]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]
