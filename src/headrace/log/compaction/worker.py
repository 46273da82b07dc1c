"""Who does a compaction's work, as the cleaner sees him; and one who does it on the spot."""

from collections.abc import Callable
from typing import Protocol

from headrace.log.compaction.clean_segments import Steps, compact, keys_max
from headrace.log.compaction.job import Damaged, Done, Event, Job, Stopped
from headrace.log.compaction.records import PLAIN_ENTRY_BYTES, PlainRecords
from headrace.ports.disk import Disk

Told = Callable[[Event | Stopped], None]


class Worker(Protocol):
    """Does one job at a time, away from the deciding thread."""

    def start(self, job: Job, told: Told) -> None:
        """Begin; `told` every event on the deciding thread, the last one Done, Damaged or Stopped.

        Whatever fails is told as Stopped.
        """

    def stop(self) -> None:
        """Stop at once what is under way, if anything; Stopped is told when it has stopped."""

    def close(self) -> None:
        """Stop for good, and tell nobody."""


def next_event(steps: Steps) -> Event | None:
    """Go on to the next event; None: there is none."""
    return next((step for step in steps if not isinstance(step, int)), None)


class InlineWorker:
    """Works on the disk's own threads, a segment at a time: for simulations, without a process."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._told: Told | None = None
        self._stopped = False

    def start(self, job: Job, told: Told) -> None:
        """Do as `Worker.start` says."""
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
        """Do as `Worker.stop` says."""
        self._stopped = True

    def close(self) -> None:
        """Do as `Worker.close` says."""
        self._told = None
