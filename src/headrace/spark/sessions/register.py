"""Registration of the format with a Spark session, and the Python that runs it.

Spark looks for sources in the PATH's `python3`, unless PYSPARK_PYTHON is set when its JVM starts.
With an environment that is not activated that is another Python, without our packages.
"""

import importlib.util
import logging
import os
import sys
from typing import TYPE_CHECKING, Any

from headrace.spark.errors import SourceError
from headrace.spark.sessions.python import worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

_SPARKS_DEFAULT = "python3"
_SET_BY_QUERIES = {
    "SPARK_LOCAL_DIRS": "",
    "SPARK_AUTH_SOCKET_TIMEOUT": "",
    "SPARK_BUFFER_SIZE": "",
    "SPARK_PYTHON_RUNTIME": "PYTHON_WORKER",
}
"""Environment variables that each streaming query sets in its source's map as it starts.

All queries of a session share the map of a source. If Spark adds a variable while it serializes
another query's task, that query fails with java.io.OptionalDataException. With all of them in the
map from the beginning a query replaces values alone, which harms no other.
"""
_STARTED_BY_SPARK = ("SPARK_ENV_LOADED", "PYSPARK_GATEWAY_PORT")


def prepare() -> None:
    """Make this program's sessions find the format; called when `headrace.spark` is imported.

    Later sessions run this Python, unless PYSPARK_PYTHON is set. With a session that runs already,
    whose environment is fixed, the format is registered. Does nothing without pyspark, in Spark's
    workers, and under spark-submit, which chooses the cluster's Python.
    """
    if any(name in os.environ for name in _STARTED_BY_SPARK):
        return
    running = _running_session()
    if running is not None:
        try:
            register(running, listened=False)
        except Exception:  # noqa: BLE001 - an import must not fail for an error of Spark.
            _log.warning(
                "cannot register the format headrace; attach(spark) shows why", exc_info=True
            )
    elif "PYSPARK_PYTHON" not in os.environ and importlib.util.find_spec("pyspark") is not None:
        os.environ["PYSPARK_PYTHON"] = worker_python()


def register(spark: "SparkSession", *, listened: bool) -> None:
    """Register `format("headrace")` with a session; a local session runs it in this Python.

    `listened`: whether a listener commits the offsets of its streaming queries. SourceError for a
    session of Spark Connect, whose Python is the server's.
    """
    if not hasattr(spark, "_jsparkSession"):
        raise SourceError(
            "headrace.spark.attach cannot reach into a Spark Connect server: start the server with "
            'PYSPARK_PYTHON set to a Python that has "headrace[spark]", and format("headrace") is '
            "found there by itself"
        )
    from pyspark_headrace import DefaultSource, ListenedSource

    context: Any = spark.sparkContext
    chosen = "PYSPARK_PYTHON" in os.environ or context.getConf().contains("spark.pyspark.python")
    if context.master.startswith("local") and context.pythonExec == _SPARKS_DEFAULT and not chosen:
        context.pythonExec = worker_python()
    environment = context.environment
    context.environment = _SET_BY_QUERIES | environment
    try:
        spark.dataSource.register(ListenedSource if listened else DefaultSource)
    finally:
        context.environment = environment


def _running_session() -> "SparkSession | None":
    """Return the Spark session that runs in this process, without importing pyspark."""
    pyspark = sys.modules.get("pyspark.sql")
    if pyspark is None:
        return None
    session: SparkSession | None = pyspark.SparkSession.getActiveSession()
    return session if hasattr(session, "_jsparkSession") else None
