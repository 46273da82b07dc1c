"""The process that compacts: `python -m headrace.server.compaction_worker PARENT`.

Reads jobs from standard input, one line each, and writes what becomes of them to standard output
(`log.compact.job`). It gives way to everybody (nice), and ends with its input, with its parent
however that dies, and with the first error it has no word for.
"""

import ctypes
import os
import signal
import sys
import time

from headrace.arrow.engine import compaction_records
from headrace.log.compact.engine import compact
from headrace.log.compact.job import Job, Stopped, read, write
from headrace.server.disk import RealDisk

NICENESS = 10
_PR_SET_PDEATHSIG = 1


class Throttle:
    """Keeps to so many bytes a second, reading and writing together; ends with the parent."""

    def __init__(self, bytes_per_second: float, parent: int) -> None:
        self._rate = bytes_per_second
        self._parent = parent
        self._due = time.monotonic()

    def breathe(self, size: int) -> None:
        """`size` more bytes were read or written."""
        if os.getppid() != self._parent:
            raise SystemExit(1)
        now = time.monotonic()
        self._due = max(self._due, now - 1.0) + size / self._rate
        if self._due > now:
            time.sleep(self._due - now)


def die_with(parent: int) -> None:
    """Be killed when `parent`, which started this process, dies."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        raise SystemExit(1)


def serve(parent: int) -> None:
    """Do jobs until the input ends."""
    disk = RealDisk(None)
    out = sys.stdout.buffer
    for line in sys.stdin.buffer:
        job = read(line)
        if not isinstance(job, Job):
            raise SystemExit(2)
        throttle = Throttle(job.io_bytes_per_second, parent)
        try:
            for event in compact(job, disk, compaction_records(job), throttle.breathe):
                out.write(write(event))
                out.flush()
        except (OSError, MemoryError) as error:
            out.write(write(Stopped(f"{type(error).__name__}: {error}")))
            out.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the broker's to answer
    die_with(int(sys.argv[1]))
    os.nice(NICENESS)
    serve(int(sys.argv[1]))
