"""`called_back` and `carried_on`: use callbacks and background work with `await`."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from headrace.model.errors import HeadraceError
from headrace.ports.callbacks import Done

T = TypeVar("T")


async def called_back(ask: Callable[[Done[T | BaseException]], None]) -> T:
    """Return the first answer passed to `ask`'s callback, or raise it if it is an exception."""
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def done(answer: T | BaseException) -> None:
        if future.done():
            return
        if isinstance(answer, BaseException):
            future.set_exception(answer)
        else:
            future.set_result(answer)

    ask(done)
    return await future


async def carried_on(work: Coroutine[Any, Any, T]) -> T:
    """Await work that continues if its caller is cancelled.

    `asyncio.shield` alone never retrieves the work's error, which the loop reports as a bug. A
    HeadraceError then concerns no caller and is dropped; any other error is reported.
    """
    task = asyncio.get_running_loop().create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(_left_alone)
        raise


def _left_alone(task: "asyncio.Task[Any]") -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, HeadraceError):
        message = "a task failed after its caller was cancelled"
        context = {"message": message, "exception": error, "task": task}
        task.get_loop().call_exception_handler(context)
