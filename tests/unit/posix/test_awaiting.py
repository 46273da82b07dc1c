"""From callbacks to `await`: what is told first is returned, an error raised."""

import asyncio
import gc

import pytest

from headrace.model.errors import ApiError, ErrorCode
from headrace.ports.callbacks import Done
from headrace.posix.awaiting import called_back, carried_on


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


@pytest.mark.parametrize(
    ("error", "reported"),
    [(ApiError(ErrorCode.STALE_BROKER_EPOCH), 0), (ZeroDivisionError("bug"), 1), (None, 0)],
)
def test_work_whose_caller_has_gone_goes_on_and_reports_bugs_only(
    error: Exception | None, reported: int
) -> None:
    async def story() -> list[str]:
        may_end, done, unread = asyncio.Event(), list[str](), list[str]()

        async def work() -> None:
            await may_end.wait()
            done.append("done")
            if error is not None:
                raise error

        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: unread.append(context["message"]))
        caller = loop.create_task(carried_on(work()))
        await asyncio.sleep(0)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        may_end.set()
        for _ in range(3):
            await asyncio.sleep(0)
        assert done == ["done"]
        del caller
        gc.collect()  # an unread error is reported when its task goes
        await asyncio.sleep(0)
        return unread

    assert len(asyncio.run(story())) == reported


def test_a_caller_that_waits_gets_the_result_or_the_error() -> None:
    async def story() -> None:
        async def work(error: Exception | None) -> int:
            if error is not None:
                raise error
            return 7

        assert await carried_on(work(None)) == 7
        with pytest.raises(ApiError, match="STALE_BROKER_EPOCH"):
            await carried_on(work(ApiError(ErrorCode.STALE_BROKER_EPOCH)))

    asyncio.run(story())
