"""From callbacks, which the deciding rooms speak in, to `await`."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from headrace.ports.callbacks import Done

T = TypeVar("T")


async def called_back(ask: Callable[[Done[T | BaseException]], None]) -> T:
    """Return the first answer that `ask`'s callback is told; raise it where it is an error."""
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
