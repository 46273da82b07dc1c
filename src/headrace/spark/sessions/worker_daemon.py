"""pyspark's worker daemon, with cheaper garbage collection between tasks and short error texts.

Spark runs this file by its path in place of `-m pyspark.daemon` and of the module that plans
streams (`python.py`). It imports only pyspark, as those do: no thread may exist before workers are
forked.

Three changes. A worker that cannot send its result, because Spark has ended or closed the
connection, exits silently; pyspark's daemon prints a traceback for each worker. A HeadraceError
reaches the author of the query as one sentence, not below a traceback of our files. And pyspark's
full garbage collection after each task skips imported modules, as it takes longer than a small
task.
"""

import gc
import os
import runpy
import sys
from typing import Any

DAEMON = "pyspark.daemon"
_FAILED = 1
_HIDE = "SPARK_HIDE_TRACEBACK"
"""If this variable is set, pyspark reports only the last line of an exception."""


def main() -> None:
    """Run the pyspark module named first, as `python -m` does, until Spark ends."""
    module = sys.argv.pop(1)
    sys.path.insert(0, os.getcwd())  # As with -m: workers find the program's own modules.
    from pyspark import util

    # Patch before the worker modules import the function under their own names.
    util.handle_worker_exception = in_one_sentence(util.handle_worker_exception)
    if module != DAEMON:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        return
    from pyspark import daemon

    daemon.worker = settled(silent(daemon.worker))
    daemon.manager()


def silent(worker: Any) -> Any:  # noqa: ANN401 - pyspark's function
    """Wrap `worker` to return a failure code when its connection to Spark is closed."""

    def wrapped(*arguments: Any) -> int:  # noqa: ANN401
        try:
            return int(worker(*arguments))
        except (BrokenPipeError, ConnectionResetError):
            return _FAILED

    return wrapped


def settled(worker: Any) -> Any:  # noqa: ANN401 - pyspark's function
    """Wrap `worker` so that garbage collection after a task skips what was imported.

    pyspark collects garbage after each task: 13 ms for the modules of Arrow and ours, while a
    micro-batch's task takes two. `gc.freeze()` moves all present objects to a generation that is
    never searched; objects of later tasks are collected as before. After a task that imported
    modules, everything is unfrozen, collected once and frozen again, so that no garbage stays
    frozen.
    """
    modules = 0

    def wrapped(*arguments: Any) -> int:  # noqa: ANN401
        nonlocal modules
        code = int(worker(*arguments))
        if len(sys.modules) != modules:
            modules = len(sys.modules)
            gc.unfreeze()
            gc.collect()
            gc.freeze()
        return code

    return wrapped


def in_one_sentence(handle: Any) -> Any:  # noqa: ANN401 - pyspark's function
    """Wrap `handle`, which reports an exception to Spark, to report ours without a traceback.

    Other exceptions keep theirs: they may be bugs of a program.
    """

    def wrapped(error: BaseException, *arguments: Any, **named: Any) -> None:  # noqa: ANN401
        ours = sys.modules.get("headrace.model.errors")
        if ours is None or not isinstance(error, ours.HeadraceError) or _HIDE in os.environ:
            handle(error, *arguments, **named)
            return
        os.environ[_HIDE] = "1"
        try:
            handle(error, *arguments, **named)
        finally:
            del os.environ[_HIDE]

    return wrapped


if __name__ == "__main__":
    main()
