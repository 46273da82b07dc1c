"""Spark sessions that need nothing but pip packages: local and quiet by default."""

import os
from typing import TYPE_CHECKING

from headrace.config.installing import install_command
from headrace.kernels.compile_cache import private_directory
from headrace.spark.errors import SourceError
from headrace.spark.sessions.java import Java, find_java
from headrace.spark.sessions.listener import attach
from headrace.spark.sessions.python import worker_python
from headrace.spark.sessions.row_bound import bound_of_rows

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
"""JVM options that switch off Arrow's bounds checks and null checks, which Spark repeats itself.

The checks cost a tenth of a scan's time, at each value that the JVM reads from a worker. ADR 63.
"""


def session(app_name: str = "headrace", **settings: object) -> "SparkSession":
    """Return a running session with `attach` done: its streaming queries show as consumer groups.

    `settings` are Spark's, with `_` for `.`, or given as `**{"spark.sql.session.timeZone": "UTC"}`,
    and `spark.headrace.rowBytesMax`, the largest row in bytes that Spark passes to Python (see
    `row_bound`). A session that already runs in this process is returned, with those settings that
    can still change. OptionError for an invalid `spark.headrace.rowBytesMax`.
    """
    spark = builder(app_name, **settings).getOrCreate()
    attach(spark)
    return spark


def builder(app_name: str = "headrace", **settings: object) -> "SparkSession.Builder":
    """Return a session builder with a Java found, workers that run this Python, local defaults.

    Defaults: `local[*]` unless a master is configured, loopback addresses, no UI (with
    `spark.ui.enabled=true` it listens on loopback), only errors logged.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SourceError(f"pyspark is missing: {install_command('pyspark', 'pandas')}") from error
    # By default workers start as `python3`, which may be another Python without our packages.
    os.environ.setdefault("PYSPARK_PYTHON", worker_python())
    # The JVM starts the Python that plans streaming sources by this name, on the driver.
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", worker_python())
    given = _named(settings)
    bound = bound_of_rows(given)
    made = SparkSession.builder.appName(app_name)
    for name, value in {**_defaults(), **bound, **given}.items():
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
        # Rows reach the JVM through Unix sockets: a tenth faster than through loopback TCP.
        "spark.python.unix.domain.socket.enabled": True,
        "spark.sql.shuffle.partitions": min(cores, _SHUFFLE_PARTITIONS_MAX),
    }
    if "MASTER" not in os.environ and "SPARK_CONF_DIR" not in os.environ:
        defaults["spark.master"] = "local[*]"
        # In a local session the gateway's and executors' ports are on loopback.
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
