"""Waiting, in a cold handler, for what the broker answers by callback."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def answered(ask: Callable[[Callable[[T], None]], None]) -> T:
    """What `ask` is told through the callback it is handed; the first word counts."""
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def done(answer: T) -> None:
        if not future.done():
            future.set_result(answer)

    ask(done)
    return await future
