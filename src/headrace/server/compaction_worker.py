"""The process that compacts: `python -m headrace.server.compaction_worker PARENT`.

Reads jobs from standard input, one line each, and writes what becomes of them to standard output
(`log.compaction.job`). It gives way to everybody (`Turns`), and ends with its input, with its
parent however that dies, and with the first error it has no word for.
"""

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from headrace.kernels.choose import compaction_records
from headrace.log.compaction.clean_segments import Steps, compact
from headrace.log.compaction.job import Event, Job, Stopped, read, write
from headrace.log.compaction.records import Span
from headrace.posix.disk import RealDisk

NICENESS = 10
_PR_SET_PDEATHSIG = 1
_SCHEDSTAT = "/proc/thread-self/schedstat"
_NOTHING = Span(b"", 0, 0, 0)
_LOOK_SECONDS = 0.2
_STARVED, _RECOVERED = 20.0, 2.0
"""Seconds waited for a processor by second run: more is starving, and no more is well again."""


class Throttle:
    """Keeps to so many bytes a second, reading and writing together; ends with the parent."""

    def __init__(self, bytes_per_second: float, parent: int) -> None:
        self._rate = bytes_per_second
        self._parent = parent
        self._due = time.monotonic()

    def breathe(self, size: int) -> None:
        """Count `size` more bytes that were read or written."""
        if os.getppid() != self._parent:
            raise SystemExit(1)
        now = time.monotonic()
        self._due = max(self._due, now - 1.0) + size / self._rate
        if self._due > now:
            time.sleep(self._due - now)


class Turns:
    """Whose turn the work is: mostly that of a thread that runs only while nobody else wants to.

    From such a one (SCHED_IDLE) a thread of the broker that wakes takes the processor at once; with
    one that is only nice'd it waits for the end of a time slice, again and again. But a machine
    that is busy all the time would leave it next to nothing. So one that is only nice'd begins, and
    goes on whenever there was so little.
    """

    def __init__(self, waited: Callable[[], float] | None = None) -> None:
        """`waited`: seconds that the calling thread has waited for a processor so far."""
        self._waited = waited or _seconds_waited
        self._humble = ThreadPoolExecutor(1, initializer=_run_only_when_idle)
        self._nice = ThreadPoolExecutor(1)
        self._starved = True

    def events(self, steps: Steps, breathe: Callable[[int], None]) -> Iterator[Event]:
        """Yield the events among the steps, which the threads do in turns. What a step raises.

        `breathe` is told of all bytes, by the thread that is at work; it may wait, or raise.
        """
        while True:
            thread = self._nice if self._starved else self._humble
            step = thread.submit(self._go_on, steps, breathe).result()
            if step is None:
                return
            if not isinstance(step, int):
                yield step

    def _go_on(self, steps: Steps, breathe: Callable[[int], None]) -> Event | int | None:
        """Go on to the next event, or to a step after which it is another thread's turn."""
        waited, ran = self._waited(), time.thread_time()
        for step in steps:
            if not isinstance(step, int):
                return step
            breathe(step)
            waited_since, ran_since = self._waited() - waited, time.thread_time() - ran
            if waited_since + ran_since < _LOOK_SECONDS:
                continue
            limit = _RECOVERED if self._starved else _STARVED
            if (waited_since > limit * ran_since) is not self._starved:
                self._starved = not self._starved
                return step
            waited, ran = waited + waited_since, ran + ran_since
        return None


def _seconds_waited() -> float:
    """Return the seconds that the calling thread waited; 0 where the system does not say."""
    try:
        with open(_SCHEDSTAT, encoding="ascii") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def _run_only_when_idle() -> None:
    if hasattr(os, "SCHED_IDLE"):
        with contextlib.suppress(OSError):  # some containers allow no such call
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def die_with(parent: int) -> None:
    """Be killed when `parent`, which started this process, dies."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        raise SystemExit(1)


def serve(parent: int) -> None:
    """Do jobs until the input ends."""
    disk, turns = RealDisk(None), Turns()
    out = sys.stdout.buffer
    for line in sys.stdin.buffer:
        job = read(line)
        if not isinstance(job, Job):
            raise SystemExit(2)
        throttle = Throttle(job.io_bytes_per_second, parent)
        try:
            records = compaction_records(job)
            records.filter(_NOTHING, -1, True)  # compiled now, by a thread that does not starve
            for event in turns.events(compact(job, disk, records), throttle.breathe):
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
