"""Waiting, in a cold handler, for what the broker answers by callback."""

import asyncio
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from types import ModuleType

    from headrace.ports.disk import Disk

T = TypeVar("T")


async def answered(ask: Callable[[Callable[[T], None]], None]) -> T:
    """What `ask` is told through the callback it is handed; the first word counts."""
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def done(answer: T) -> None:
        if not future.done():
            future.set_result(answer)

    ask(done)
    return await future


async def imported(disk: "Disk", module: str) -> None:
    """Import by a thread of `disk` what the next step would import on the loop. ImportError."""
    if module in sys.modules:
        return
    work: Callable[[], ModuleType] = partial(import_module, module)
    result = await answered(partial(disk.run, work))
    if isinstance(result, BaseException):
        raise result
