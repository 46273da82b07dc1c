"""Appends by a thread, while the kernel makes those wait who write.

A write to the page cache is a copy, until too many pages are dirty or the journal is busy: then the
kernel puts the writer to sleep, for a fifth of a second and longer. ext4 has no way to ask first
(RWF_NOWAIT is for reads there), so it is told by the last ones: after a pass whose writes were
slow, passes hand theirs over to a thread until they have been quick for a while.

What is handed over is copied. Flushes and reads of these files wait for it, and a write that failed
fails the flush: nothing is said to be durable that was not written.
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
"""A pass's writes that take longer than this, and than what their size explains, were held up."""
SECONDS_PER_FILE = 100e-6
BYTES_PER_SECOND = 200e6
"""What the page cache takes at least, while nobody is held up."""
SLOW_FOR_SECONDS = 5.0
"""How long writes must have been quick until the loop does them again."""

Job = tuple["OpenFile", int, int, Sequence[Buffer]]
"""File, descriptor, position, parts."""


class Writer:
    """Decides who writes, and hands over what the thread is to write. Used on the loop."""

    def __init__(self, workers: "Workers | None", open_files: "OpenFiles") -> None:
        self._workers = workers
        self._open_files = open_files
        self._slow_until = 0.0
        self._under_way = 0
        self.last: Event | None = None
        """Set once all that was handed over has been tried; None where nothing is under way."""
        self.passes = 0
        """Passes handed over so far."""

    @property
    def busy(self) -> bool:
        """Whether some of what was handed over is not written yet."""
        return self._under_way > 0

    @property
    def wanted(self) -> bool:
        """Whether the thread is to write: it has not done with others, or they were slow lately."""
        return self._under_way > 0 or (self._slow_until > 0 and self._still_slow())

    def _still_slow(self) -> bool:
        if monotonic() < self._slow_until:
            return True
        self._slow_until = 0.0
        return False

    def took(self, seconds: float, size: int, count: int) -> None:
        """Learn from a pass: how long its writes of `size` bytes to `count` files took."""
        explained = size / BYTES_PER_SECOND + count * SECONDS_PER_FILE
        if seconds > SLOW_SECONDS + explained and self._workers is not None:
            self._slow_until = monotonic() + SLOW_FOR_SECONDS

    def hand_over(
        self, holding: "Sequence[OpenFile]", done: Callable[[Failures], None]
    ) -> Failures | None:
        """Have the thread write what files hold back; `done` on the loop, with what failed.

        None, unless it fails at once: then nothing was handed over.
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
                raise file.failure  # behind what is missing nothing is written
            files.write_all(fd, position, parts)
        except OSError as error:
            if file.failure is None:
                file.failure = error
                with contextlib.suppress(OSError):
                    os.ftruncate(fd, position)
            failures.append((file.path, error))
    return failures
