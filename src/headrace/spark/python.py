"""The Python that Spark starts for its workers: this one, spared two detours.

Spark puts the zip of pyspark that it carries before the installed package. Nothing in a zip is
compiled, so each worker compiled all of pyspark anew: 2.4 CPU-seconds of start instead of 0.8, of
the ten that Spark gives a streaming source's worker. The zip and the package are the same files.

Processes of a sink's driver are forked where their imports are done (`preload`).
"""

import importlib.util
import shlex
import sys
from pathlib import Path
from zlib import crc32

from headrace.kernels.compile_cache import private_directory
from headrace.spark.errors import SourceError
from headrace.spark.preload import WORKERS
from headrace.spark.script import write_script

_WRAPPER = """\
#!/bin/sh
case $PYTHONPATH in
{zips}) PYTHONPATH=${{PYTHONPATH#*:}} ;;
esac
case "$*" in
{daemons}) exec {python} -c {preloading} "$3" ;;
esac
exec {python} "$@"
"""
# A program may import this package from where its workers do not find it.
_PRELOADING = """\
try:
    from headrace.spark.preload import main
except ImportError:
    from pyspark.daemon import manager as main
main()
"""


def worker_python() -> str:
    """Return the path of a script that runs this Python without the zip before the package."""
    spec = importlib.util.find_spec("pyspark")  # found, not imported: that takes a while
    if spec is None or spec.origin is None:
        raise SourceError('pyspark is missing: pip install "headrace[spark]"')
    carried = Path(spec.origin).parent / "python" / "lib" / "pyspark.zip"
    zips = {shlex.quote(str(path)) + ":*" for path in (carried, carried.resolve())}
    daemons = (shlex.quote(f"-m pyspark.daemon {worker}") for worker in WORKERS)
    content = _WRAPPER.format(
        zips="|".join(sorted(zips)),
        python=shlex.quote(sys.executable),
        daemons="|".join(daemons),
        preloading=shlex.quote(_PRELOADING),
    )
    script = private_directory("spark") / f"python-{crc32(content.encode()):08x}"
    write_script(script, content)
    return str(script)
