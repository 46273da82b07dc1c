"""The temporary views of a pipeline as DataFrames, each made by its function at the first use."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.pipeline.declarations import DeclarationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.pipeline.graph import Graph


@dataclass
class Views:
    """The views of one pipeline in one session."""

    graph: Graph
    _made: dict[str, DataFrame] = field(default_factory=dict)
    _running: list[str] = field(default_factory=list)

    def read(self, name: str) -> DataFrame:
        """Return a view's rows. DeclarationError for a table, an unknown view or a circle."""
        graph = self.graph
        if name in graph.tables:
            raise DeclarationError(
                f"hp.read({name!r}): {name} is a table, and tables are not read as streams: write "
                "its rows to a topic, or declare them as @dp.temporary_view and read that"
            )
        if name in self._running:
            raise DeclarationError(f"views read each other: {' → '.join([*self._running, name])}")
        if name not in self._made:
            flows = [flow for flow in graph.flows if flow.target == name]
            if name not in graph.views or not flows:
                known = ", ".join(graph.views) or "none"
                raise DeclarationError(f"hp.read({name!r}): there is no such view; views: {known}")
            self._running.append(name)
            try:
                self._made[name] = flows[0].function()
            finally:
                self._running.pop()
        return self._made[name]
