"""Time and chance of the real world."""

import asyncio
import time
import uuid
from itertools import combinations

from headrace.posix.clock import RealClock, RealRandom, boot_seconds


def test_a_clock_tells_milliseconds_since_1970_and_seconds_that_only_grow() -> None:
    loop = asyncio.new_event_loop()
    try:
        clock = RealClock(loop)
        before, found, after = time.time(), clock.wall_ms(), time.time()
        assert int(before * 1000) <= found <= after * 1000
        first, between, last = time.monotonic(), clock.monotonic(), time.monotonic()
        assert first <= between <= last
        assert boot_seconds() >= between - first
    finally:
        loop.close()


def test_what_is_due_at_once_comes_in_the_next_turn_and_the_rest_in_its_time() -> None:
    heard: list[str] = []

    async def story() -> None:
        clock = RealClock(asyncio.get_running_loop())
        began = clock.monotonic()
        clock.call_later(0, lambda: heard.append("next turn"))
        clock.call_later(-1, lambda: heard.append("as well"))
        clock.call_later(0, lambda: heard.append("never")).cancel()
        done = asyncio.Event()
        clock.call_later(0.03, done.set)
        assert heard == []
        await asyncio.sleep(0)
        assert heard == ["next turn", "as well"]
        await done.wait()
        assert clock.monotonic() - began > 0.02

    asyncio.run(story())
    assert heard == ["next turn", "as well"]


def test_uuids_are_of_version_4_and_all_else_in_them_is_drawn() -> None:
    drawn = [RealRandom().uuid() for _ in range(200)]
    assert {len(found) for found in drawn} == {16}
    for found in drawn:
        assert uuid.UUID(bytes=found).version == 4
        assert uuid.UUID(bytes=found).variant == uuid.RFC_4122
    for at in range(16):
        least = {6: 12, 8: 40}.get(at, 80)
        assert len({found[at] for found in drawn}) >= least


def test_no_byte_of_a_uuid_follows_from_another() -> None:
    drawn = [RealRandom().uuid() for _ in range(200)]
    for at, other in combinations(range(16), 2):
        for mask in (0x0F, 0x30):
            assert any((found[at] ^ found[other]) & mask for found in drawn)


def test_a_float_lies_anywhere_between_the_two() -> None:
    drawn = [RealRandom().uniform(2.0, 6.0) for _ in range(400)]
    assert 2.0 <= min(drawn) < 2.4
    assert 5.6 < max(drawn) < 6.0
    assert RealRandom().uniform(3.0, 3.0) == 3.0
