"""`Writer`: move appends to a thread while the kernel blocks writers.

A write to the page cache is a copy, unless too many pages are dirty or the journal is busy: then
the kernel blocks the writer for a fifth of a second or longer. ext4 cannot report that in advance
(RWF_NOWAIT works only for reads there), so past writes decide:

    loop writes ── a pass takes longer than its size explains ──> thread writes
                <── SLOW_FOR_SECONDS without a slow pass ─────────

Data for the thread is copied. Flushes and reads of the files wait for it. A failed write fails the
flush, so nothing that was not written is reported as durable.
"""

import contextlib
import os
from collections.abc import Callable, Sequence
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING

from headrace.model.invariant import InvariantError
from headrace.ports.disk import Buffer, Failures
from headrace.posix import files

if TYPE_CHECKING:
    from headrace.posix.open_files import OpenFile, OpenFiles
    from headrace.posix.threads import Workers

SLOW_SECONDS = 0.010
"""Seconds beyond the time that its size explains after which a pass counts as blocked."""
SECONDS_PER_FILE = 100e-6
BYTES_PER_SECOND = 200e6
"""Assumed least speed of writes to the page cache while writers are not blocked."""
SLOW_FOR_SECONDS = 5.0
"""Seconds that writes must be fast before the loop does them again."""

Job = tuple["OpenFile", int, int, Sequence[Buffer]]
"""A write for the thread: file, descriptor, position, parts."""


class Writer:
    """Decides whether the loop or a thread writes, and passes writes to the thread. For the
    loop."""

    def __init__(self, workers: "Workers | None", open_files: "OpenFiles") -> None:
        self._workers = workers
        self._open_files = open_files
        self._slow_until = 0.0
        self._under_way = 0
        self.last: Event | None = None
        """Set once all writes passed to the thread have been tried; None if none are in
        progress."""
        self.passes = 0
        """Number of passes written by the thread."""

    @property
    def busy(self) -> bool:
        """Whether the thread still has writes to do."""
        return self._under_way > 0

    @property
    def wanted(self) -> bool:
        """Whether the thread should write: it is still writing, or writes were slow recently."""
        return self._under_way > 0 or (self._slow_until > 0 and self._still_slow())

    def _still_slow(self) -> bool:
        if monotonic() < self._slow_until:
            return True
        self._slow_until = 0.0
        return False

    def took(self, seconds: float, size: int, count: int) -> None:
        """Record that a pass took `seconds` to write `size` bytes to `count` files."""
        explained = size / BYTES_PER_SECOND + count * SECONDS_PER_FILE
        if seconds > SLOW_SECONDS + explained and self._workers is not None:
            self._slow_until = monotonic() + SLOW_FOR_SECONDS

    def hand_over(
        self, holding: "Sequence[OpenFile]", done: Callable[[Failures], None]
    ) -> Failures | None:
        """Let the thread write the files' delayed writes; `done` gets the failures on the loop.

        Returns None; or the failures if the files could not be opened: nothing was passed on then.
        """
        workers = self._workers
        if workers is None:
            raise InvariantError("a disk without workers was asked to write by a thread")
        try:
            fds = self._open_files.pin_all(holding)
        except OSError as error:
            return [(file.path, error) for file in holding]
        jobs = [(file, fd, *file.take_held()) for file, fd in zip(holding, fds, strict=True)]
        size = sum(file.held_bytes for file in holding)
        written = Event()
        for file in holding:
            file.writing = written
        self.last = written
        self._under_way += 1
        self.passes += 1

        def work() -> tuple[Failures, float]:
            began = monotonic()
            try:
                return _write(jobs), monotonic() - began
            finally:
                written.set()

        def finished(result: "tuple[Failures, float] | BaseException") -> None:
            self._under_way -= 1
            if self.last is written:
                self.last = None
            self._open_files.unpin_all(holding)
            if isinstance(result, BaseException):
                raise result
            failures, seconds = result
            self.took(seconds, size, len(holding))
            done(failures)

        workers.write(work, finished)
        return None


def _write(jobs: Sequence[Job]) -> Failures:
    failures = []
    for file, fd, position, parts in jobs:
        try:
            if file.failure is not None:
                raise file.failure  # nothing is written behind missing data
            files.write_all(fd, position, parts)
        except OSError as error:
            if file.failure is None:
                file.failure = error
                with contextlib.suppress(OSError):
                    os.ftruncate(fd, position)
            failures.append((file.path, error))
    return failures
