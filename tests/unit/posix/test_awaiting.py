"""From callbacks to `await`: what is told first is returned, an error raised."""

import asyncio

import pytest

from headrace.ports.callbacks import Done
from headrace.posix.awaiting import called_back


async def _soon(*answers: int | BaseException) -> int:
    def ask(done: Done[int | BaseException]) -> None:
        for answer in answers:
            asyncio.get_running_loop().call_soon(done, answer)

    return await called_back(ask)


def test_the_first_answer_is_returned_and_later_ones_are_ignored() -> None:
    assert asyncio.run(_soon(1, 2, OSError("late"))) == 1


def test_an_answer_that_is_an_error_is_raised() -> None:
    with pytest.raises(OSError, match="no space"):
        asyncio.run(_soon(OSError("no space"), 1))


def test_who_stopped_waiting_is_told_nothing() -> None:
    async def story() -> None:
        told: list[Done[int | BaseException]] = []
        waiting = asyncio.create_task(called_back(told.append))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        told[0](1)

    asyncio.run(story())
