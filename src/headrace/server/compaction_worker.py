"""The process that compacts: `python -m headrace.server.compaction_worker PARENT`.

Reads jobs from standard input, one per line, and writes their events to standard output
(`log.compaction.job`). It yields the processor to the broker (`Turns`). It ends when its input
ends, when its parent dies in any way, and with the first error that is no event.
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
"""An empty span, for a call that only compiles the record filter."""
_LOOK_SECONDS = 0.2
"""Seconds (waited and run) after which starvation is measured again."""
_STARVED, _RECOVERED = 20.0, 2.0
"""Seconds of waiting for a processor per second run.

More than `_STARVED`: the thread is starved; less than `_RECOVERED`: it no longer is.
"""


class Throttle:
    """Limits bytes read and written per second in all, by sleeping.

    Exits when the parent has died.
    """

    def __init__(self, bytes_per_second: float, parent: int) -> None:
        self._rate = bytes_per_second
        self._parent = parent
        self._due = time.monotonic()

    def breathe(self, size: int) -> None:
        """Count `size` more bytes read or written; sleep if they exceed the rate."""
        if os.getppid() != self._parent:
            raise SystemExit(1)
        now = time.monotonic()
        self._due = max(self._due, now - 1.0) + size / self._rate
        if self._due > now:
            time.sleep(self._due - now)


class Turns:
    """Runs the work on one of two threads: SCHED_IDLE normally, only nice'd while that one starves.

    A broker thread that wakes preempts a SCHED_IDLE thread at once, but a nice'd one only at the
    end of its time slice. On a machine that is always busy a SCHED_IDLE thread would hardly run, so
    the nice'd thread begins, and takes over whenever the other starves (`_STARVED`, `_RECOVERED`).
    """

    def __init__(self, waited: Callable[[], float] | None = None) -> None:
        """Create both threads.

        `waited` returns the seconds that the calling thread waited for a processor.
        """
        self._waited = waited or _seconds_waited
        self._humble = ThreadPoolExecutor(1, initializer=_run_only_when_idle)
        self._nice = ThreadPoolExecutor(1)
        self._starved = True

    def events(self, steps: Steps, breathe: Callable[[int], None]) -> Iterator[Event]:
        """Run `steps` to the end, on either thread; yield its events, and raise what a step raises.

        `breathe` is called on the working thread with each step's bytes; it may sleep or raise.
        """
        while True:
            thread = self._nice if self._starved else self._humble
            step = thread.submit(self._go_on, steps, breathe).result()
            if step is None:
                return
            if not isinstance(step, int):
                yield step

    def _go_on(self, steps: Steps, breathe: Callable[[int], None]) -> Event | int | None:
        """Run steps until an event or a change of threads; return that step, or None at the end."""
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
    """Return the seconds that the calling thread waited for a processor; 0 where unknown."""
    try:
        with open(_SCHEDSTAT, encoding="ascii") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def _run_only_when_idle() -> None:
    """Put the calling thread into SCHED_IDLE, where the system allows it."""
    if hasattr(os, "SCHED_IDLE"):
        with contextlib.suppress(OSError):  # some containers allow no such call
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def die_with(parent: int) -> None:
    """Have the kernel kill this process when `parent` dies; exit if it is already dead."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        raise SystemExit(1)


def serve(parent: int) -> None:
    """Run the jobs of standard input, one after another, until it ends."""
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
