"""Projects on disk, and runs of them in the tests' own Spark session."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from headrace.pipeline.project import load_project
from headrace.pipeline.run.runner import RunRequest, run_pipeline
from headrace.pipeline.run.supervisor import Ending, Mode
from headrace.record.batch import Record
from tests.spark.kit import TIME_MS

HEAD = """\
from datetime import datetime
from typing import NamedTuple
from pyspark import pipelines as dp
from pyspark.sql import functions as F
from headrace import pipeline as hp
"""


class Project(NamedTuple):
    """A project's directory, run against one broker."""

    directory: Path
    bootstrap: str
    spark: SparkSession
    events: list[Mapping[str, Any]]

    @property
    def storage(self) -> Path:
        return self.directory / "data"

    def run(
        self,
        mode: Mode = Mode.ONCE,
        profile: str | None = None,
        bootstrap: str | None = None,
        settings: Mapping[str, str] | None = None,
        accept_loss: frozenset[str] = frozenset(),
    ) -> Ending:
        """Run the project; its events replace those of the run before."""
        self.events.clear()
        project = load_project(self.directory, profile)
        address = bootstrap or self.bootstrap
        request = RunRequest(
            project, address, settings or {}, mode, self.events.append, accept_loss
        )
        return run_pipeline(request, self.spark)

    def write(self, text: str, name: str = "all.py") -> None:
        """Write a file of declarations."""
        (self.directory / "transformations" / name).write_text(HEAD + text)

    def parquet(self, table: str) -> list[dict[str, Any]]:
        """Return the rows of a Parquet table, by partition and offset if they have them."""
        rows: list[dict[str, Any]] = [
            row
            for file in sorted((self.storage / table).glob("[!_]*.parquet"))
            for row in pq.read_table(file).to_pylist()
        ]
        return sorted(rows, key=lambda row: (row.get("_partition", 0), row.get("_offset", 0)))

    def of(self, event: str) -> list[Mapping[str, Any]]:
        """Return the events of a kind in the last run."""
        return [each for each in self.events if each["event"] == event]


def make_project(
    directory: Path,
    bootstrap: str,
    spark: SparkSession,
    text: str,
    settings: str = "",
    name: str = "shop",
) -> Project:
    """Write a project with one file of declarations.

    Projects that write to topics of one broker need different names: decisions are by name.
    """
    (directory / "transformations").mkdir(parents=True)
    (directory / "pipeline.toml").write_text(f'name = "{name}"\n{settings}')
    project = Project(directory, bootstrap, spark, [])
    project.write(text)
    return project


def json_records(first: int, count: int, **more: object) -> list[Record]:
    """Records with the values {"id": …, "name": "n…"}, one millisecond apart."""
    return [
        Record(
            0,
            TIME_MS + number,
            b"k%d" % number,
            json.dumps({"id": number, "name": f"n{number}", **more}).encode(),
        )
        for number in range(first, first + count)
    ]
