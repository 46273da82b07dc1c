"""A Spark session that starts with nothing installed but pip packages, local and quiet."""

import os
from typing import TYPE_CHECKING

from headrace.config.installing import install_command
from headrace.kernels.compile_cache import private_directory
from headrace.spark.errors import SourceError
from headrace.spark.sessions.java import Java, find_java
from headrace.spark.sessions.listener import attach
from headrace.spark.sessions.python import worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG_SETTINGS = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
# Spark announces a log level of its own for Python unless this logger has the root's.
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex{short}
"""

_SHUFFLE_PARTITIONS_MAX = 8

_ARROW_OPTIONS = (
    "-Darrow.enable_unsafe_memory_access=true",
    "-Darrow.enable_null_check_for_get=false",
)
"""Without them Spark's JVM looks at the bounds of a column's memory, and for nulls that Spark has
asked for before, at each value it takes from a worker: a tenth of a scan's time. ADR 63."""


def session(app_name: str = "headrace", **settings: object) -> "SparkSession":
    """Return a running session with `attach` done: its streaming queries show as consumer groups.

    `settings` are Spark's, with `_` for `.` where that is not part of the name, or given as
    `**{"spark.sql.session.timeZone": "UTC"}`. A session that already runs in this process is
    taken as it is, with the settings that can still be changed.
    """
    spark = builder(app_name, **settings).getOrCreate()
    attach(spark)
    return spark


def builder(app_name: str = "headrace", **settings: object) -> "SparkSession.Builder":
    """Return a session's builder with a Java found, workers that run this Python, local defaults.

    Defaults: `local[*]` unless a master is configured, loopback addresses, no UI (with
    `spark.ui.enabled=true` it listens on the loopback), errors only in the log.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SourceError(f"pyspark is missing: {install_command('pyspark', 'pandas')}") from error
    # Workers are started as `python3` unless told otherwise: another Python, without our packages.
    os.environ.setdefault("PYSPARK_PYTHON", worker_python())
    # Spark's JVM starts what plans sources with this one, on the driver's machine.
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", worker_python())
    made = SparkSession.builder.appName(app_name)
    for name, value in {**_defaults(), **_named(settings)}.items():
        made = made.config(name, _text(value))
    return made


def _defaults() -> dict[str, object]:
    java = _use_java()
    settings = private_directory("spark") / "log4j2.properties"
    if not settings.is_file() or settings.read_text() != _LOG_SETTINGS:
        settings.write_text(_LOG_SETTINGS)
    options = [
        f"-Dlog4j2.configurationFile=file:{settings}", *_ARROW_OPTIONS, *java.quiet_options()
    ]  # fmt: skip
    cores = len(os.sched_getaffinity(0))
    defaults: dict[str, object] = {
        "spark.driver.extraJavaOptions": " ".join(options),
        "spark.ui.enabled": False,
        "spark.ui.showConsoleProgress": False,
        # Rows reach the JVM through these sockets: a tenth more of them than through loopback TCP.
        "spark.python.unix.domain.socket.enabled": True,
        "spark.sql.shuffle.partitions": min(cores, _SHUFFLE_PARTITIONS_MAX),
    }
    if "MASTER" not in os.environ and "SPARK_CONF_DIR" not in os.environ:
        defaults["spark.master"] = "local[*]"
        # The gateway's and the executors' ports are on the loopback of a local session.
        defaults["spark.driver.host"] = "127.0.0.1"
        defaults["spark.driver.bindAddress"] = "127.0.0.1"
    return defaults


def _use_java() -> Java:
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    return java


def _named(settings: dict[str, object]) -> dict[str, object]:
    return {
        name if "." in name else name.replace("_", "."): value for name, value in settings.items()
    }


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
