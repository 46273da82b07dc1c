"""The Spark session of a run, with its messages in a file and the project's code on executors."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from headrace.spark import session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headrace.pipeline.project import Project

_GATEWAY_MODULES = ("java_gateway", "clientserver")
"""Modules of py4j that call the JVM."""
_STOP_TIMEOUT = "spark.sql.streaming.stopTimeout"
_STOP_SECONDS = 60
"""How long a query that is stopped may take to end; Spark waits without a bound by default."""


@contextmanager
def run_session(project: Project, messages: Path) -> Iterator[SparkSession]:
    """Start a session for a run; stop it at the end.

    Spark's own messages, and those of its Python processes, go to the file `messages`.
    """
    master = project.settings.get("master")
    given = {_STOP_TIMEOUT: f"{_STOP_SECONDS}s", **({"spark.master": master} if master else {})}
    with _errors_in(messages):
        spark = session(f"pipeline {project.name}", **{**given, **project.configuration})
    _silence_accumulators(spark)
    with gateway_silenced():
        try:
            yield spark
        finally:
            # The JVM may have ended before.
            with suppress(Exception):
                spark.stop()


@contextmanager
def gateway_silenced() -> Iterator[None]:
    """Leave out the tracebacks that py4j logs to the root logger when the JVM has died.

    Its error reaches the caller, too, and ends the run with one sentence.
    """
    root = logging.getLogger()
    root.addFilter(_is_of_no_gateway)
    try:
        yield
    finally:
        root.removeFilter(_is_of_no_gateway)


def _is_of_no_gateway(record: logging.LogRecord) -> bool:
    return record.module not in _GATEWAY_MODULES


def _silence_accumulators(spark: SparkSession) -> None:
    """Let the thread that receives accumulators end without a traceback if the JVM dies.

    The end of the run is one sentence; a counter that did not arrive is of a lost batch.
    """
    server: Any = getattr(spark.sparkContext, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda request, address: None


@contextmanager
def _errors_in(path: Path) -> Iterator[None]:
    """Let processes that are started in this context write standard output and error to `path`.

    They keep these files. A file that cannot be opened changes nothing.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    except OSError:
        yield
        return
    sys.stdout.flush()
    sys.stderr.flush()
    before = os.dup(1), os.dup(2)
    try:
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        yield
    finally:
        os.dup2(before[0], 1)
        os.dup2(before[1], 2)
        for each in (*before, descriptor):
            os.close(each)
