"""The result of checking a project: counts of its declarations, and its errors."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.model.nouns import counted
from headrace.pipeline.load import Finding, loaded
from headrace.pipeline.validate import findings_of
from headrace.spark import session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from headrace.pipeline.project import Project

_SPARK_ERRORS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""pyspark's loggers of errors in columns, those in SQL and those in Python."""


@dataclass(frozen=True)
class Checked:
    """Counts of a project's declarations, and its errors."""

    pipeline: str
    counts: dict[str, int]
    """Numbers of tables, views, sinks, topics and checks."""
    findings: tuple[Finding, ...]

    @property
    def summary(self) -> str:
        """The counts and whether the project is sound, in one line."""
        words = [
            counted(count, name.removesuffix("s")) for name, count in self.counts.items() if count
        ]
        verdict = counted(len(self.findings), "error") if self.findings else "sound"
        return f"{self.pipeline}: {', '.join(words) or 'nothing is declared'}: {verdict}"

    def to_json(self) -> dict[str, Any]:
        """Return the result for `--json`."""
        return {
            "pipeline": self.pipeline,
            **self.counts,
            "errors": [
                {
                    "text": finding.text,
                    "file": finding.place and finding.place.file,
                    "line": finding.place and finding.place.line,
                }
                for finding in self.findings
            ],
        }


@contextmanager
def checking_session(project: Project, purpose: str) -> Iterator[SparkSession]:
    """Start a session that checks a project's declarations; stop it at the end."""
    # pyspark logs each error of a column as JSON; here they are findings.
    for name in _SPARK_ERRORS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    spark = session(
        f"{purpose} {project.name}", **{"spark.master": "local[1]", **project.configuration}
    )
    try:
        yield spark
    finally:
        spark.stop()


def check_project(project: Project) -> Checked:
    """Check a project's declarations in a session of its own."""
    with checking_session(project, "validate") as spark, loaded(project) as found:
        findings, topics = findings_of(spark, found)
        graph = found.graph
        counts = {
            "tables": len(graph.tables),
            "views": len(graph.views),
            "sinks": len(graph.sinks),
            "topics": len(topics),
            "checks": sum(len(flow.check_names) for flow in graph.flows),
        }
        return Checked(project.name, counts, tuple(findings))
