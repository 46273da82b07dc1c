"""Client settings of a run: a client of its driver, and a file that all its processes read.

As options of a source they would be in Spark's plans and in what the driver sends to workers.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.client.sync import connect
from headrace.config.properties import render
from headrace.kernels.compile_cache import private_directory
from headrace.pipeline.run.topic_streams import ClusterAddress
from headrace.terminal.broker_options import security_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

    from headrace.client.client import Client

_SECONDS = 15.0
"""Timeout of the driver's own requests, and of their repetitions."""


def client_of(
    bootstrap: str, settings: Mapping[str, str], retry_seconds: float | None = None
) -> Client:
    """Return a client with these settings, by Kafka's names, not connected yet. ConfigError.

    `retry_seconds`: for how long requests are repeated; None: as long as the driver's other ones.
    """
    security = security_of(settings)
    return connect(
        bootstrap,
        client_id="headrace-pipeline",
        request_timeout_seconds=_SECONDS,
        retry_seconds=_SECONDS if retry_seconds is None else retry_seconds,
        tls=security.tls,
        credentials=security.credentials,
    )


@contextmanager
def client_file(
    spark: SparkSession, bootstrap: str, settings: Mapping[str, str]
) -> Iterator[ClusterAddress]:
    """Return the brokers' address with a file of these settings, deleted at the end.

    On a cluster Spark sends the file to the executors. OSError.
    """
    if not settings:
        yield ClusterAddress(bootstrap)
        return
    file = private_directory("pipeline") / f"client-{os.getpid()}.properties"
    _write(file, settings)
    try:
        if str(spark.sparkContext.master).startswith("local"):
            yield ClusterAddress(bootstrap, str(file))
        else:
            spark.sparkContext.addFile(str(file))
            yield ClusterAddress(bootstrap, file.name)
    finally:
        with suppress(OSError):
            file.unlink()


def _write(file: Path, settings: Mapping[str, str]) -> None:
    for old in file.parent.glob("client-*.properties"):
        # Of a process that was killed.
        if not Path(f"/proc/{old.stem.removeprefix('client-')}").exists():
            old.unlink(missing_ok=True)
    file.unlink(missing_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as lines:
        lines.write(render(settings))
