"""pyspark's workers, quick between tasks and without tracebacks that no reader could mend.

Run by its path in place of `-m pyspark.daemon` and of the module that plans streams (python.py). It
imports pyspark alone, as those do: no thread may be there before workers are forked.

A worker that cannot hand over what it has left, because Spark has ended or closed its end, is no
error: pyspark's daemon prints a traceback of it for each worker. An error of ours is one sentence
for whoever wrote the query: pyspark puts it below a traceback of our files. And pyspark looks for
garbage after each task in all that a worker has imported, for longer than a small task runs.
"""

import gc
import os
import runpy
import sys
from typing import Any

DAEMON = "pyspark.daemon"
_FAILED = 1
_HIDE = "SPARK_HIDE_TRACEBACK"
"""Where it is in the environment, pyspark tells an error by its last line alone."""


def main() -> None:
    """Run the module of pyspark that is named first, as `-m` does, until Spark ends."""
    module = sys.argv.pop(1)
    sys.path.insert(0, os.getcwd())  # as -m has it: workers find the program's own modules
    from pyspark import util

    # Before the modules of workers, which take it under names of their own.
    util.handle_worker_exception = in_one_sentence(util.handle_worker_exception)
    if module != DAEMON:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        return
    from pyspark import daemon

    daemon.worker = settled(silent(daemon.worker))
    daemon.manager()


def silent(worker: Any) -> Any:  # noqa: ANN401 - pyspark's function
    """Return `worker`, which ends as one that failed where nobody listens to it any more."""

    def wrapped(*arguments: Any) -> int:  # noqa: ANN401
        try:
            return int(worker(*arguments))
        except (BrokenPipeError, ConnectionResetError):
            return _FAILED

    return wrapped


def settled(worker: Any) -> Any:  # noqa: ANN401 - pyspark's function
    """Return `worker`, after whose tasks what it imported is not searched for garbage.

    pyspark collects garbage after each task: of 13 ms for the modules of Arrow and ours, where a
    task of a micro-batch takes two. What a task leaves is collected as before. All is searched
    once more when a task has imported something, so that nothing is kept from then on that is
    garbage by now.
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
    """Return `handle`, which tells Spark of an exception, and of one of ours without a traceback.

    Others' keep theirs: they may be errors of a program.
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
