"""A Spark session in a process of its own, which is told line by line what to call.

A JVM has one set of jars, and compiles for what it has run: each subject has its own, and keeps it
over all rounds, so that all of them are warm.
"""

import argparse
import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.spark_peer import CONNECTOR
from bench.spark_scan import CORES, environment
from tests.support.net.line_process import LineProcess, answers_alone, serve

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class SparkProcess(LineProcess):
    """A session of `local[2]` run by `python`; `connector`: with the Kafka connector's jars."""

    def __init__(self, python: Path, root: Path, *, connector: bool) -> None:
        command = [str(python), "-m", "bench.spark_process", *["--connector"][: int(connector)]]
        super().__init__(command, root, environment(root))

    def call(self, module: str, function: str, *arguments: object) -> Any:  # noqa: ANN401
        """Have it call `bench.<module>.<function>(session, *arguments)`; what that returns."""
        return self.ask([module, function, arguments])

    def cpu_seconds(self) -> float:
        """User and system time of it, its JVM and Spark's Python workers, those that ended too."""
        taken, pending = 0, [self.pid]
        children = _children()
        while pending:
            pid = pending.pop()
            ticks, below = children.get(pid, (0, []))
            taken += ticks
            pending += below
        return taken / TICKS_PER_SECOND


def _children() -> dict[int, tuple[int, list[int]]]:
    """Return clock ticks (its own and its dead children's) and living children of all processes."""
    ticks: dict[int, int] = {}
    below: dict[int, list[int]] = {}
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            fields = (directory / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:  # it has ended meanwhile
            continue
        pid = int(directory.name)
        ticks[pid] = sum(map(int, fields[11:15]))
        below.setdefault(int(fields[1]), []).append(pid)
    return {pid: (found, below.get(pid, [])) for pid, found in ticks.items()}


def _session(connector: bool) -> "SparkSession":
    import headrace.spark

    settings: dict[str, object] = {
        "spark.master": f"local[{CORES}]",
        "spark.driver.memory": "2g",
        "spark.sql.streaming.numRecentProgressUpdates": 100_000,
    }
    if not connector:
        return headrace.spark.session("bench", **settings)
    settings["spark.jars"] = ",".join(map(str, CONNECTOR.jars()))
    return headrace.spark.builder("bench", **settings).getOrCreate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connector", action="store_true", help="with the connector's jars")
    given = parser.parse_args()
    answers = answers_alone()
    spark = _session(given.connector)

    def call(request: Any) -> object:  # noqa: ANN401 - JSON
        module, function, arguments = request
        return getattr(importlib.import_module(f"bench.{module}"), function)(spark, *arguments)

    try:
        serve(answers, call)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
