"""From callbacks, which the rooms below speak in, to awaiting."""

import asyncio
from collections.abc import Callable

Done = Callable[[BaseException | None], None]


async def called_back(begin: Callable[[Done], None]) -> None:
    """Begin something that calls back with an error or None; return when it has, or raise that."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done(error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    begin(done)
    await future
