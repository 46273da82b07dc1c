"""Check a project's declarations without data and without a broker.

The functions run on streams without rows, so Spark checks their columns, expressions and
streaming rules. Tables, checks and sinks are checked with the same code as in a run.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyarrow.parquet import write_table
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DoubleType,
    FloatType,
    MapType,
    StructType,
    TimestampType,
    VariantType,
)

from headrace.model.errors import HeadraceError
from headrace.pipeline.declarations import DeclarationError, Outcome, sources
from headrace.pipeline.load import Finding, Loaded, finding_of, sentence_of
from headrace.pipeline.topic_columns import columns_of, parsed_ddl
from headrace.pipeline.traced_rows import untraced
from headrace.pipeline.views import Views
from headrace.spark.checks.check import FAILED
from headrace.spark.sink.sink_columns import check_columns
from headrace.spark.tables.partition import check_fields, parse_fields
from headrace.spark.tables.sink import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.pipelines.output import Sink, StreamingTable
    from pyspark.sql import SparkSession

    from headrace.pipeline.declarations import TopicSource
    from headrace.pipeline.graph import DeclaredFlow, Place

FORMATS = ("parquet", "delta", "iceberg")
_SINK_FORMAT = "headrace"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")

_NO_KEYS = (ArrayType, MapType, StructType, VariantType, DoubleType, FloatType)
"""Types that Arrow does not group by, and those whose zeros and NaN have several forms."""


@dataclass
class EmptyStreams:
    """Gives the pipeline's functions streams without rows."""

    spark: SparkSession
    loaded: Loaded
    place: Path | None = None
    """A directory in which the streams have files without rows, so that they run; None: no files,
    the streams are only checked."""
    topics: set[str] = field(default_factory=set)
    places: dict[str, TopicSource] = field(default_factory=dict)
    """Topics by the name of their directory in `place`."""

    def __post_init__(self) -> None:
        self._views = Views(self.loaded.graph)

    def topic(self, source: TopicSource) -> DataFrame:
        """Return a stream with the columns of a topic."""
        self.topics.add(source.name)
        rows = self._empty(source, columns_of(source))
        if source.event_time is not None and source.watermark is not None:
            rows = rows.withWatermark(source.event_time, source.watermark)
        return rows

    def read(self, name: str) -> DataFrame:
        """Return a view's stream."""
        return self._views.read(name)

    def _empty(self, source: TopicSource, schema: StructType) -> DataFrame:
        streams = self.spark.readStream.schema(schema)
        if self.place is None:
            with tempfile.TemporaryDirectory() as directory:
                return streams.parquet(directory)
        name = next((name for name in self.places if self.places[name] == source), None)
        if name is None:
            name = f"topic-{len(self.places)}"
            self.places[name] = source
            (self.place / name).mkdir()
            rows = arrow_schema(schema).empty_table()
            write_table(rows, self.place / name / "empty.parquet")
        return streams.parquet(str(self.place / name))


def findings_of(spark: SparkSession, loaded: Loaded) -> tuple[list[Finding], set[str]]:
    """Return the errors of a project's declarations, and the topics that it reads."""
    given = EmptyStreams(spark, loaded)
    found = [*loaded.findings, *_targets(loaded)]
    with sources(given):
        for flow in loaded.graph.flows:
            try:
                _check_flow(given, flow)
            except Exception as error:  # noqa: BLE001 - any error of a function is a finding
                finding = finding_of(error, loaded.project.directory)
                found.append(Finding(f"{flow.name}: {finding.text}", finding.place or flow.place))
    return found, given.topics


def _targets(loaded: Loaded) -> Iterator[Finding]:
    graph = loaded.graph
    known = {*graph.tables, *graph.views, *graph.sinks}
    for flow in graph.flows:
        if not _NAME.fullmatch(flow.name):
            yield Finding(
                f"{flow.name}: a flow's name has up to 100 letters, digits, _ and -", flow.place
            )
        if flow.target not in known:
            yield Finding(f"{flow.name}: its target {flow.target} is not declared", flow.place)
        elif flow.target in graph.views and flow.check_names:
            yield Finding(
                f"{flow.name}: checks belong to tables and sinks, not to views", flow.place
            )
    for name in known - {flow.target for flow in graph.flows}:
        yield Finding(f"{name}: no flow writes to it; add @dp.append_flow", graph.places[name])
    for table in graph.tables.values():
        yield from _table(table, graph.places[table.name])
    for sink in graph.sinks.values():
        yield from _sink(sink, graph.places[sink.name])


def _table(table: StreamingTable, place: Place) -> Iterator[Finding]:
    if not _NAME.fullmatch(table.name):
        yield Finding(f"{table.name}: a table's name has up to 100 letters, digits, _ and -", place)
    if (table.format or FORMATS[0]) not in FORMATS:
        yield Finding(
            f"{table.name}: format is {table.format}; tables are {', '.join(FORMATS)}", place
        )
    for name in ("table_properties", "cluster_by"):
        if getattr(table, name):
            yield Finding(f"{table.name}: {name} is not supported", place)


def _sink(sink: Sink, place: Place) -> Iterator[Finding]:
    if sink.format != _SINK_FORMAT:
        yield Finding(f"{sink.name}: sinks have the format {_SINK_FORMAT}, a topic", place)
    if not sink.options.get("topic"):
        yield Finding(f'{sink.name}: name its topic: {{"topic": "…"}}', place)


def _check_flow(given: EmptyStreams, flow: DeclaredFlow) -> None:
    graph = given.loaded.graph
    rows = given.read(flow.target) if flow.target in graph.views else flow.function()
    if not isinstance(rows, DataFrame):
        raise DeclarationError(f"the function returns {type(rows).__name__}, not a DataFrame")
    if not rows.isStreaming:
        raise DeclarationError("the rows are not a stream: begin with hp.topic or hp.read")
    if FAILED in rows.columns:
        raise DeclarationError(f"a run adds the column {FAILED}: give yours another name")
    _check_conditions(rows, flow)
    _check_columns(rows, flow)
    if flow.target in graph.tables:
        _check_table(rows, graph.tables[flow.target])
    if flow.target in graph.sinks:
        options = graph.sinks[flow.target].options
        ddl = options.get("valueSchema")
        _of_options(lambda: check_columns(rows.schema, options["topic"], ddl))
    if flow.target not in graph.views:
        _check_streaming(given.spark, rows)


def _check_conditions(rows: DataFrame, flow: DeclaredFlow) -> None:
    for check in flow.checks:
        try:
            kind = rows.select(sf.expr(check.condition)).schema.fields[0].dataType
        except AnalysisException as error:
            raise DeclarationError(f"check {check.name!r}: {sentence_of(error)}") from error
        if not isinstance(kind, BooleanType):
            raise DeclarationError(
                f"check {check.name!r}: {check.condition!r} is {kind.simpleString()}, not a boolean"
            )
        if check.outcome is Outcome.QUARANTINE and (why := untraced(rows)) is not None:
            raise DeclarationError(f"check {check.name!r}: {why}")


def _check_columns(rows: DataFrame, flow: DeclaredFlow) -> None:
    """Raise DeclarationError for the columns of checks of uniqueness and freshness."""
    kinds = {column.name: column.dataType for column in rows.schema.fields}
    wanted = [(check, name) for check in flow.unique for name in check.columns]
    named = [(check.name, name) for check, name in wanted]
    for check, name in [*named, *((each.name, each.column) for each in flow.fresh)]:
        if name not in kinds:
            columns = ", ".join(kinds)
            raise DeclarationError(
                f"check {check!r}: there is no column {name}; the rows have {columns}"
            )
    for unique, name in wanted:
        if isinstance(kinds[name], _NO_KEYS):
            raise DeclarationError(
                f"check {unique.name!r}: {name} is {kinds[name].simpleString()}, whose values are "
                "not compared: give columns of numbers, texts, times or bytes"
            )
    for fresh in flow.fresh:
        if not isinstance(kinds[fresh.column], TimestampType):
            raise DeclarationError(
                f"check {fresh.name!r}: {fresh.column} is {kinds[fresh.column].simpleString()}, "
                "and must be a timestamp"
            )


def _check_table(rows: DataFrame, table: StreamingTable) -> None:
    if table.schema is not None:
        schema = table.schema
        declared = schema if isinstance(schema, StructType) else parsed_ddl("schema", schema)
        wanted, found = (
            {column.name: column.dataType.simpleString() for column in each.fields}
            for each in (declared, rows.schema)
        )
        if wanted != found:
            raise DeclarationError(f"the rows have the columns {found}, and the schema {wanted}")
    partitions = ", ".join(table.partition_cols or ())
    _of_options(lambda: check_fields(parse_fields(partitions), arrow_schema(rows.schema)))


def _of_options(check: Callable[[], object]) -> None:
    try:
        check()
    except HeadraceError as error:
        text = str(error).replace("partitionBy:", "partition_cols:")
        raise DeclarationError(text) from error


def _check_streaming(spark: SparkSession, rows: DataFrame) -> None:
    """Raise DeclarationError for a plan that Spark does not run as a stream in append mode."""
    jvm = spark._jvm  # Spark has no public call for it.
    if jvm is None:
        return
    sql = jvm.org.apache.spark.sql
    plan = rows._jdf.queryExecution().analyzed()
    mode = sql.streaming.OutputMode.Append()
    try:
        sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(plan, mode)
    except AnalysisException as error:
        raise DeclarationError(sentence_of(error)) from error
