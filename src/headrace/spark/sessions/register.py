"""The format made known to a session, and the Python it runs in.

Spark looks for sources in `python3` of the PATH unless PYSPARK_PYTHON says otherwise when its JVM
starts: with an environment that is not activated that is another Python, without our packages.
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
_STARTED_BY_SPARK = ("SPARK_ENV_LOADED", "PYSPARK_GATEWAY_PORT")


def prepare() -> None:
    """Let the format be found by this program's sessions: called when `headrace.spark` is imported.

    Sessions started from now on run this Python, unless PYSPARK_PYTHON chose another. In one that
    runs already, whose environment is fixed, the format is registered. Nothing happens without
    pyspark, in Spark's workers, and under spark-submit, where the cluster's Python is chosen.
    """
    if any(name in os.environ for name in _STARTED_BY_SPARK):
        return
    running = _running_session()
    if running is not None:
        try:
            register(running, listened=False)
        except Exception:  # noqa: BLE001 - an import does not fail for what Spark says
            _log.warning("the format is not registered; attach(spark) says why", exc_info=True)
    elif "PYSPARK_PYTHON" not in os.environ and importlib.util.find_spec("pyspark") is not None:
        os.environ["PYSPARK_PYTHON"] = worker_python()


def register(spark: "SparkSession", *, listened: bool) -> None:
    """Make `format("headrace")` known to a session, run by this Python where it is a local one.

    `listened`: whether a listener commits what its streaming queries read. SourceError for a
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
    spark.dataSource.register(ListenedSource if listened else DefaultSource)


def _running_session() -> "SparkSession | None":
    """Return the session that runs in this process, without importing pyspark for it."""
    pyspark = sys.modules.get("pyspark.sql")
    if pyspark is None:
        return None
    session: SparkSession | None = pyspark.SparkSession.getActiveSession()
    return session if hasattr(session, "_jsparkSession") else None
