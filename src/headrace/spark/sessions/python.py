"""The Python that Spark starts for its workers: this one, without pyspark's zip on the path.

Spark puts its zip of pyspark before the installed package. A zip holds no compiled modules, so each
worker compiled all of pyspark again: 2.4 CPU-seconds of start instead of 0.8, of the ten that Spark
grants a streaming source's worker. The zip and the package contain the same files.
"""

import importlib.util
import shlex
import sys
from pathlib import Path
from zlib import crc32

from headrace.config.installing import install_command
from headrace.kernels.compile_cache import private_directory
from headrace.spark.errors import SourceError
from headrace.spark.sessions.script import write_script

_WRAPPER = """\
#!/bin/sh
case $PYTHONPATH in
{zips}) PYTHONPATH=${{PYTHONPATH#*:}} ;;
esac
case "$1 $2" in
"-m pyspark.daemon" | "-m pyspark.sql.streaming.python_streaming_source_runner")
  shift
  # -P: the modules beside that file are not for import by their last names.
  exec {python} -P {daemon} "$@" ;;
esac
exec {python} "$@"
"""


def worker_python() -> str:
    """Return the path of a script that runs this Python without pyspark's zip on the path."""
    # find_spec does not import pyspark, which would take a while.
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SourceError(f"pyspark is missing: {install_command('pyspark', 'pandas')}")
    carried = Path(spec.origin).parent / "python" / "lib" / "pyspark.zip"
    zips = {shlex.quote(str(path)) + ":*" for path in (carried, carried.resolve())}
    daemon = Path(__file__).with_name("worker_daemon.py")
    content = _WRAPPER.format(
        zips="|".join(sorted(zips)),
        python=shlex.quote(sys.executable),
        daemon=shlex.quote(str(daemon)),
    )
    script = private_directory("spark") / f"python-{crc32(content.encode()):08x}"
    write_script(script, content)
    return str(script)
