"""The tables, views, sinks and flows that a pipeline declares, by Spark's own decorators.

`pyspark.pipelines` registers declarations with the active `GraphElementRegistry`. Ours collects
them for a classic session; `spark-pipelines` sends the same declarations to a server.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.pipelines.graph_element_registry import GraphElementRegistry
from pyspark.pipelines.output import MaterializedView, Sink, StreamingTable, TemporaryView

from headrace.pipeline.declarations import (
    WITHOUT_CDC,
    Check,
    DeclarationError,
    checks_of,
    fresh_of,
    unique_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.pipelines.flow import AutoCdcFlow, Flow
    from pyspark.pipelines.output import Output
    from pyspark.pipelines.source_code_location import SourceCodeLocation
    from pyspark.sql import DataFrame

    from headrace.spark.checks.check import Fresh, Unique


@dataclass(frozen=True)
class Place:
    """A line of the project's code."""

    file: str
    line: int | None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


@dataclass(frozen=True)
class DeclaredFlow:
    """A function whose rows go to a table, a view or a sink."""

    name: str
    target: str
    function: Callable[[], DataFrame]
    checks: tuple[Check, ...]
    place: Place
    unique: tuple[Unique, ...] = ()
    fresh: tuple[Fresh, ...] = ()

    @property
    def check_names(self) -> tuple[str, ...]:
        """The names of all its checks."""
        names = [check.name for check in self.checks]
        names += [check.name for check in self.unique]
        return (*names, *(check.name for check in self.fresh))


@dataclass
class Graph(GraphElementRegistry):
    """All declarations of a pipeline, in the order of its files."""

    tables: dict[str, StreamingTable] = field(default_factory=dict)
    views: dict[str, TemporaryView] = field(default_factory=dict)
    sinks: dict[str, Sink] = field(default_factory=dict)
    flows: list[DeclaredFlow] = field(default_factory=list)
    places: dict[str, Place] = field(default_factory=dict)
    """Place of each table, view and sink."""

    @property
    def sent_topics(self) -> set[str]:
        """The topics that its sinks write to."""
        return {topic for sink in self.sinks.values() if (topic := sink.options.get("topic"))}

    def register_output(self, output: Output) -> None:
        """Add a table, view or sink. DeclarationError if its name is taken or its kind unknown."""
        place = place_of(output.source_code_location)
        if output.name in self.places:
            raise DeclarationError(f"{output.name} is declared at {self.places[output.name]}, too")
        match output:
            case MaterializedView():
                raise DeclarationError(
                    f"{output.name}: materialized views are not supported; use @dp.table, whose "
                    "rows come from hp.topic"
                )
            case StreamingTable():
                self.tables[output.name] = output
            case TemporaryView():
                self.views[output.name] = output
            case Sink():
                self.sinks[output.name] = output
            case _:
                raise DeclarationError(f"{output.name}: {type(output).__name__} is not supported")
        self.places[output.name] = place

    def register_flow(self, flow: Flow) -> None:
        """Add a flow with its checks. DeclarationError if its name is taken."""
        place = place_of(flow.source_code_location)
        for other in self.flows:
            if other.name == flow.name:
                raise DeclarationError(f"flow {flow.name} is declared at {other.place}, too")
        if flow.spark_conf:
            raise DeclarationError(
                f"flow {flow.name}: spark_conf is not supported: a run has one session; set it in "
                "pipeline.toml under configuration"
            )
        self.flows.append(
            DeclaredFlow(
                flow.name,
                flow.target,
                flow.func,
                checks_of(flow.func),
                place,
                unique_of(flow.func),
                fresh_of(flow.func),
            )
        )

    def register_auto_cdc_flow(self, flow: AutoCdcFlow) -> None:
        """Refuse a CDC flow: its columns belong to a Spark Connect session."""
        raise DeclarationError(
            f"{flow.target}: dp.create_auto_cdc_flow runs under spark-pipelines only: {WITHOUT_CDC}"
        )

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        """Refuse a file of SQL."""
        raise DeclarationError(f"{file_path}: files of SQL are not supported; declare it in Python")


def place_of(location: SourceCodeLocation) -> Place:
    """Return the place of a declaration."""
    return Place(location.filename, location.line_number)
