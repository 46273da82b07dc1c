"""A Spark session in a process of its own, which is told line by line what to call.

A JVM has one set of jars, and compiles for what it has run: each subject has its own, and keeps it
over all rounds, so that all of them are warm.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from bench.spark_scan import CORES, connector_jars, environment
from tests.support.process import wait_or_kill

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
END_SECONDS_MAX = 30
_ERROR_CHARACTERS_MAX = 3000


class SparkProcess:
    """A session of `local[2]` run by `python`; `connector`: with the Kafka connector's jars."""

    def __init__(self, python: Path, root: Path, *, connector: bool) -> None:
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed at the end
        command = [str(python), "-m", "bench.spark_process", *["--connector"][: int(connector)]]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, text=True,
            cwd=root, env=environment(root),
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it, at once where something failed. The JVM ends with the Python that started it."""
        if error is not None:
            self._process.terminate()
        elif self._process.stdin is not None:
            self._process.stdin.close()
        wait_or_kill(self._process, END_SECONDS_MAX)
        self._said.close()

    def call(self, module: str, function: str, *arguments: object) -> Any:  # noqa: ANN401
        """Have it call `bench.<module>.<function>(session, *arguments)`; what that returns."""
        pipes = self._process.stdin, self._process.stdout
        if pipes[0] is None or pipes[1] is None:
            raise RuntimeError("the process has no pipes")
        try:
            pipes[0].write(json.dumps([module, function, arguments]) + "\n")
            pipes[0].flush()
            answer = pipes[1].readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            self._process.wait(END_SECONDS_MAX)
            self._said.seek(0)
            said = self._said.read()[-_ERROR_CHARACTERS_MAX:]
            raise RuntimeError(f"bench.{module}.{function} failed:\n{said}")
        return json.loads(answer)

    def cpu_seconds(self) -> float:
        """User and system time of it, its JVM and Spark's Python workers, those that ended too."""
        taken, pending = 0, [self._process.pid]
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
    settings["spark.jars"] = ",".join(map(str, connector_jars()))
    return headrace.spark.builder("bench", **settings).getOrCreate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connector", action="store_true", help="with the connector's jars")
    given = parser.parse_args()
    # Standard output is for answers alone, whatever Spark's children write to theirs.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    spark = _session(given.connector)
    try:
        for line in sys.stdin:
            module, function, arguments = json.loads(line)
            found = getattr(importlib.import_module(f"bench.{module}"), function)(spark, *arguments)
            print(json.dumps(found), file=answers, flush=True)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
