"""An event loop without threads, sockets or real time."""

import asyncio
import heapq
import random
from asyncio import BaseEventLoop
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

if TYPE_CHECKING:
    from collections import deque

T = TypeVar("T")

_TASKS_LOOKED_THROUGH = 1000
STARTED_SECONDS = 1000.0
"""The first value of the clock: not 0, which often means never."""


class Standstill(RuntimeError):
    """No callback is ready and no timer is set: a task waits forever."""


class SimLoop(BaseEventLoop):
    """An event loop ordered by a seed; time advances only when no callback is ready.

    asyncio runs ready callbacks in the order in which they became ready; here the seed chooses the
    next one, so that code which relies on an order without waiting for it fails. Relies on private
    names of CPython: `PRIVATE_NAMES`, checked by a test.
    """

    PRIVATE_NAMES = ("_ready", "_scheduled", "_run_once", "_process_events", "_write_to_self")
    """Names of BaseEventLoop in CPython 3.11, 3.12 and 3.13."""
    HANDLE_NAMES = ("_cancelled", "_run", "_scheduled")
    """Names of TimerHandle."""

    def __init__(self, seed: int) -> None:
        """Create a loop; the same `seed` gives the same order of callbacks."""
        super().__init__()
        self._ready: deque[Any]
        self._scheduled: list[Any]
        self._steps_max = 0
        self._order = random.Random(f"order {seed}")  # noqa: S311 - not for secrets
        self._now = STARTED_SECONDS
        self.steps = 0
        """Callbacks run so far."""
        self.after_step: Callable[[], None] | None = None
        """Called after each callback; its exception ends the play."""
        self.failures: list[BaseException] = []
        """Exceptions of tasks and callbacks that no code waited for."""
        self._tasks: list[asyncio.Task[Any]] = []
        """All tasks, referenced here so that the garbage collector does not end them.

        Tasks of a machine without power wait forever; a collection would end them at a random time.
        """
        self.set_exception_handler(self._unexpected)

    def time(self) -> float:
        """Return seconds of the simulation's time."""
        return self._now

    def play(self, story: Coroutine[Any, Any, T], steps_max: int = 50_000_000) -> T:
        """Run `story` to its end and close the loop.

        Raises its error, or the first other failure.
        """
        self._steps_max = steps_max
        try:
            result = self.run_until_complete(story)
        finally:
            self._steps_max = 0
            self.after_step = None
            self._end_tasks()
            self.close()
        if self.failures:
            raise self.failures[0]
        return result

    def create_task(self, *args: Any, **keywords: Any) -> asyncio.Task[Any]:  # noqa: ANN401
        """Create a task like asyncio, and keep a reference to it."""
        task: asyncio.Task[Any] = super().create_task(*args, **keywords)
        if len(self._tasks) >= _TASKS_LOOKED_THROUGH:
            self._tasks = [held for held in self._tasks if not held.done()]
        self._tasks.append(task)
        return task

    def _end_tasks(self) -> None:
        # In order of creation, not by name: names are numbered across the whole process.
        left = [task for task in self._tasks if not task.done()]
        for task in left:
            task.cancel()
        if left:
            self.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self._tasks.clear()  # a task that has failed, and was not awaited, is reported with its end

    def _unexpected(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        message = context.get("message", "unexpected")
        self.failures.append(error if error is not None else RuntimeError(message))

    def _run_once(self) -> None:
        ready, scheduled = self._ready, self._scheduled
        while scheduled and scheduled[0]._cancelled:
            heapq.heappop(scheduled)._scheduled = False
        if not ready:
            if not scheduled:
                raise Standstill("nothing is ready, and no timer is set")
            self._now = max(self._now, scheduled[0].when())
        while scheduled and scheduled[0].when() <= self._now:
            handle = heapq.heappop(scheduled)
            handle._scheduled = False
            if not handle._cancelled:
                ready.append(handle)
        if not ready:
            return
        self.steps += 1
        if 0 < self._steps_max < self.steps:
            raise Standstill(f"no end after {self._steps_max} callbacks")
        chosen = self._order.randrange(len(ready))
        ready.rotate(-chosen)
        handle = ready.popleft()
        ready.rotate(chosen)
        if not handle._cancelled:
            handle._run()
            if self.after_step is not None:
                self.after_step()

    def _process_events(self, event_list: object) -> None:
        """Do nothing: there are no sockets."""

    def _write_to_self(self) -> None:
        """Do nothing: there is no other thread to wake the loop."""

    def run_in_executor(self, executor: object, func: object, *args: object) -> NoReturn:
        """Raise RuntimeError: the simulated loop has no threads."""
        raise RuntimeError(f"{func} would run in a thread, which no seed can order")
