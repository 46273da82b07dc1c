"""The loop whose order is a seed."""

import asyncio
from asyncio import BaseEventLoop, TimerHandle
from hashlib import blake2b

import pytest

from headrace.testing.sim.history import History
from headrace.testing.sim.loop import STARTED_SECONDS, SimLoop, Standstill


def order_of(seed: int, count: int = 6) -> list[int]:
    """In which order that many callbacks ran which were ready at once."""
    ran: list[int] = []

    async def story() -> None:
        for number in range(count):
            asyncio.get_running_loop().call_soon(ran.append, number)
        await asyncio.sleep(1)

    SimLoop(seed).play(story())
    return ran


def test_this_cpython_has_the_private_names_that_the_loop_stands_on() -> None:
    loop = SimLoop(0)
    for name in SimLoop.PRIVATE_NAMES:
        assert hasattr(BaseEventLoop, name) or name in vars(loop), name
    handle = loop.call_later(1, print)
    for name in SimLoop.HANDLE_NAMES:
        assert hasattr(handle, name), name
    assert isinstance(handle, TimerHandle)
    assert loop._scheduled == [handle]
    assert not loop._ready
    loop.close()


def test_the_same_seed_gives_the_same_order_and_others_give_others() -> None:
    assert all(order_of(seed) == order_of(seed) for seed in range(5))
    orders = {tuple(order_of(seed)) for seed in range(20)}
    assert len(orders) > 10
    assert all(sorted(order) == [0, 1, 2, 3, 4, 5] for order in orders)


def test_time_stands_still_while_anything_is_ready_and_then_jumps_to_the_next_timer() -> None:
    async def story() -> list[float]:
        loop = asyncio.get_running_loop()
        seen = [loop.time()]
        for _ in range(100):
            await asyncio.sleep(0)
        seen.append(loop.time())
        await asyncio.gather(asyncio.sleep(3600), asyncio.sleep(60))
        seen.append(loop.time())
        return seen

    assert SimLoop(3).play(story()) == [STARTED_SECONDS, STARTED_SECONDS, STARTED_SECONDS + 3600]


def test_a_cancelled_timer_neither_runs_nor_moves_time() -> None:
    async def story() -> float:
        loop = asyncio.get_running_loop()
        loop.call_later(50, pytest.fail).cancel()
        await asyncio.sleep(100)
        loop.call_later(9, pytest.fail).cancel()
        async with asyncio.timeout(1000):
            await asyncio.sleep(1)
        return loop.time()

    assert SimLoop(0).play(story()) == STARTED_SECONDS + 101


def test_waiting_for_what_nobody_will_do_is_said() -> None:
    async def story() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Standstill):
        SimLoop(0).play(story())


def test_a_story_without_end_is_ended() -> None:
    async def story() -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(0)

    with pytest.raises(Standstill, match="1000 callbacks"):
        SimLoop(0).play(story(), steps_max=1000)


def test_a_story_may_take_as_many_steps_as_it_is_given_and_no_more() -> None:
    async def story() -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    loop = SimLoop(0)
    loop.play(story())
    assert loop.steps >= 10
    SimLoop(0).play(story(), steps_max=loop.steps)
    with pytest.raises(Standstill):
        SimLoop(0).play(story(), steps_max=loop.steps - 1)


def test_a_history_tells_when_what_and_of_bytes_their_size_and_digest() -> None:
    history = History(lambda: 1.5)
    digest = blake2b(b"abc", digest_size=6).hexdigest()
    for content in (b"abc", bytearray(b"abc"), memoryview(b"abc")):
        history.add("sent", "a", 7, content)
    assert history.lines == [f"1.500000000 sent a 7 3:{digest}"] * 3
    whole = "\n".join(history.lines).encode()
    assert history.digest() == blake2b(whole, digest_size=16).hexdigest()


def test_threads_are_refused() -> None:
    async def story() -> None:
        await asyncio.to_thread(print)

    with pytest.raises(RuntimeError, match="no seed can order"):
        SimLoop(0).play(story())


def test_what_a_callback_raises_fails_the_story() -> None:
    def fails() -> None:
        raise ZeroDivisionError

    async def story() -> None:
        asyncio.get_running_loop().call_soon(fails)
        await asyncio.sleep(1)

    with pytest.raises(ZeroDivisionError):
        SimLoop(0).play(story())


def test_an_update_lost_between_a_read_and_a_write_is_found_by_some_seeds() -> None:
    """What plain asyncio, in the order of becoming ready, never shows."""

    async def story() -> int:
        loop = asyncio.get_running_loop()
        mark = 0

        async def raise_to(value: int) -> None:
            nonlocal mark
            before = mark
            await asyncio.sleep(0)
            mark = max(before, value)

        await asyncio.gather(*(raise_to(value) for value in (1, 2)))
        assert loop.time() == STARTED_SECONDS
        return mark

    found = [seed for seed in range(50) if SimLoop(seed).play(story()) != 2]
    assert 5 < len(found) < 45


def test_the_end_of_a_play_does_not_hang_on_the_names_of_its_tasks() -> None:
    """They number all tasks of a process, whatever was played before."""

    def played(names: str) -> list[int]:
        ended: list[int] = []

        async def wait(number: int) -> None:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                ended.append(number)

        async def story() -> None:
            loop = asyncio.get_running_loop()
            held.extend(loop.create_task(wait(at), name=name) for at, name in enumerate(names))
            await asyncio.sleep(1)

        held: list[asyncio.Task[None]] = []
        SimLoop(1).play(story())
        return ended

    assert played("abcdefgh") == played("hgfedcba")
