"""Spark's daemon of Python workers, silent where Spark has gone before a worker was told.

Run by its path in place of `-m pyspark.daemon` (python.py). It imports pyspark alone, as that does:
no thread may be there before workers are forked. A worker that cannot hand over what it has left,
because Spark has ended or closed its end, is no error that a reader of the terminal could mend;
pyspark's daemon prints a traceback of it for each worker.
"""

import os
import sys
from typing import Any

_FAILED = 1


def main() -> None:
    """Serve as pyspark's daemon does, until Spark ends."""
    sys.path.insert(0, os.getcwd())  # as -m has it: workers find the program's own modules
    from pyspark import daemon

    daemon.worker = silent(daemon.worker)
    daemon.manager()


def silent(worker: Any) -> Any:  # noqa: ANN401 - pyspark's function
    """Return `worker`, which ends as one that failed where nobody listens to it any more."""

    def wrapped(*arguments: Any) -> int:  # noqa: ANN401
        try:
            return int(worker(*arguments))
        except (BrokenPipeError, ConnectionResetError):
            return _FAILED

    return wrapped


if __name__ == "__main__":
    main()
