"""`Workers`: threads for work that would block the loop.

Every acknowledgement waits for a flush, so flushes have a thread of their own with a SimpleQueue,
and one wake-up of the loop per result. Other work (uncached reads, directory scans) shares a small
pool, started on demand.
"""

import asyncio
import logging
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")
log = logging.getLogger(__name__)

_Job = tuple[Callable[[], Any], Callable[[Any], None], bool]


class Workers:
    """The broker's threads. Used from the loop."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, flush_threads: int = 1, others: int = 4
    ) -> None:
        """Make the pools: at most `flush_threads` flushes and `others` other jobs run at a time."""
        self._loop = loop
        self._flushes = Crew("flush", loop, flush_threads)
        self._writes = Crew("write", loop, 1)
        self._others = Crew("work", loop, others)

    def flush(self, work: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        """Run `work` on the flush thread, then `done` on the loop with its OSError, or None."""
        self._flushes.submit(work, done, flush=True)

    def write(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """Run `work` as `run` does, on one thread, in the order of calls."""
        self._writes.submit(work, done, flush=False)

    def run(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """Run `work` on a thread, then `done` on the loop with its result or exception."""
        self._others.submit(work, done, flush=False)

    def stop(self) -> None:
        """Finish all submitted work and end the threads. Blocks."""
        self._writes.stop()
        self._flushes.stop()
        self._others.stop()


class Crew:
    """A pool of threads with one queue, started on demand."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop, size_max: int) -> None:
        self._name = name
        self._loop = loop
        self._size_max = size_max
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads: list[Thread] = []
        self._under_way = 0

    def submit(self, work: Callable[[], Any], done: Callable[[Any], None], *, flush: bool) -> None:
        """Run `work`, then `done` on the loop; for a `flush` with its OSError or None."""
        self._under_way += 1
        if self._under_way > len(self._threads) and len(self._threads) < self._size_max:
            name = f"{self._name}-{len(self._threads)}"
            thread = Thread(target=self._serve, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()
        self._jobs.put((work, done, flush))

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            work, done, flush = job
            result: Any
            try:
                result = work()
                if flush:
                    result = None
            except BaseException as error:  # noqa: BLE001 - passed to the caller
                result = error
                if flush and not isinstance(error, OSError):
                    result = OSError(f"the flush failed: {error!r}")
            try:
                self._loop.call_soon_threadsafe(self._deliver, done, result)
            except RuntimeError:
                return  # the loop is closed: no caller waits any longer

    def _deliver(self, done: Callable[[Any], None], result: Any) -> None:  # noqa: ANN401
        self._under_way -= 1
        done(result)

    def leave(self) -> None:
        """Let the threads end after the submitted work, without waiting for them."""
        for _ in self._threads:
            self._jobs.put(None)
        self._threads.clear()

    def stop(self) -> None:
        """Finish all submitted work and end the threads. Blocks."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()
