"""`Worker`: the interface of a compaction worker, and `InlineWorker` for simulations."""

from collections.abc import Callable
from typing import Protocol

from headrace.log.compaction.clean_segments import Steps, compact, keys_max
from headrace.log.compaction.job import Damaged, Done, Event, Job, Stopped
from headrace.log.compaction.records import PLAIN_ENTRY_BYTES, PlainRecords
from headrace.ports.disk import Disk

Told = Callable[[Event | Stopped], None]


class Worker(Protocol):
    """Runs one compaction job at a time, off the deciding thread."""

    def start(self, job: Job, told: Told) -> None:
        """Start a job; call `told` on the deciding thread for each event.

        The last event is Done, Damaged or Stopped; a failure is reported as Stopped.
        """

    def stop(self) -> None:
        """Stop the running job, if any; Stopped is reported when it has ended."""

    def close(self) -> None:
        """Stop the running job without reporting anything."""


def next_event(steps: Steps) -> Event | None:
    """Run a job to its next event and return that; None at its end."""
    return next((step for step in steps if not isinstance(step, int)), None)


class InlineWorker:
    """A `Worker` that runs on the disk's threads, one segment at a time: for simulations."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._told: Told | None = None
        self._stopped = False

    def start(self, job: Job, told: Told) -> None:
        """Start a job on the disk's threads."""
        self._told, self._stopped = told, False
        keys = PlainRecords(keys_max(job, PLAIN_ENTRY_BYTES))
        self._next(compact(job, self._disk, keys))

    def _next(self, steps: Steps) -> None:
        def done(result: Event | BaseException | None) -> None:
            told = self._told
            if told is None:
                return
            if self._stopped:
                told(Stopped("asked to"))
            elif isinstance(result, (BaseException, type(None))):
                told(Stopped(repr(result)))
            else:
                if not isinstance(result, (Done, Damaged)):
                    self._next(steps)
                told(result)

        self._disk.run(lambda: next_event(steps), done)

    def stop(self) -> None:
        """Stop the compaction after the current segment."""
        self._stopped = True

    def close(self) -> None:
        """Report no further events to the caller."""
        self._told = None
