"""A stop ends, whoever does not answer: the store, the controller, or what the broker waits for."""

import asyncio
import gc
import logging
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.cluster.topics.creation import NewTopic
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.invariant import InvariantError
from headrace.model.nouns import BrokerId
from headrace.server.stop_waits import PART_SECONDS_MAX, StopWaits
from headrace.testing.sim.cluster import SimCluster
from headrace.testing.sim.ensemble import SESSION_SECONDS
from headrace.testing.sim.loop import SimLoop
from tests.support.cluster.peer_kit import cut_off, mend, play, started
from tests.support.sim.cluster import until

ZERO, ONE, TWO = (BrokerId(number) for number in range(3))
ATTEMPTS = 3
"""controlled.shutdown.max.retries, as it is by default."""
HAND_OVER_SECONDS_MAX = ATTEMPTS * SESSION_SECONDS
STORE_SECONDS_MAX = 2 * PART_SECONDS_MAX
A_WAY = 1.0


def now() -> float:
    return asyncio.get_running_loop().time()


async def with_topics(cluster: SimCluster) -> None:
    """Three brokers, each of which leads something that the two others follow."""
    await started(cluster, 0, 1, 2)
    for number in range(3):
        order = [BrokerId((number + more) % 3) for more in range(3)]
        await cluster.controller().create_topics([NewTopic(f"t{number}", assignment={0: order})])


def warnings(caplog: pytest.LogCaptureFixture, start: str) -> list[str]:
    said = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    return [line for line in said if line.startswith(start)]


@pytest.mark.parametrize("number", [0, 1], ids=["the controller", "another broker"])
def test_a_broker_whose_store_answers_nothing_stops_and_says_what_it_left(
    number: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(cluster: SimCluster) -> None:
        await with_topics(cluster)
        cluster.worlds[number].lose_touch()
        began = now()
        await cluster.stop(number)
        assert now() - began < HAND_OVER_SECONDS_MAX + STORE_SECONDS_MAX + A_WAY

    play(story)
    (left,) = warnings(caplog, "the broker stops without waiting longer for: ")
    assert "closing the metadata store's session (5 s)" in left
    assert "requests in progress" not in left
    (led,) = warnings(caplog, "controlled shutdown is incomplete")
    assert "the controller or the store has not answered in 6 s" in led


def test_brokers_that_stop_at_once_while_the_store_answers_nothing_all_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(cluster: SimCluster) -> None:
        await with_topics(cluster)
        for world in cluster.worlds.values():
            world.lose_touch()
        wanted = [NewTopic("u", assignment={0: [ZERO]})]
        decided = asyncio.ensure_future(cluster.controller().create_topics(wanted))
        await asyncio.sleep(A_WAY)
        began = now()
        await asyncio.gather(*(cluster.stop(number) for number in range(3)))
        assert now() - began < HAND_OVER_SECONDS_MAX + STORE_SECONDS_MAX + A_WAY
        decided.cancel()

    play(story)
    left = warnings(caplog, "the broker stops without waiting longer for: ")
    assert len(left) == 3
    assert any("changes of the metadata store in progress" in line for line in left)


def test_a_controller_that_never_answers_is_asked_no_longer_than_the_session_lives(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(cluster: SimCluster) -> None:
        await with_topics(cluster)
        cut_off(cluster, 0, 1)
        began = now()
        await cluster.stop(1)
        assert now() - began < HAND_OVER_SECONDS_MAX + A_WAY
        mend(cluster, 0, 1)

    play(story)
    assert not warnings(caplog, "the broker stops without")
    assert len(warnings(caplog, "controlled shutdown is incomplete")) == 1


def test_leadership_goes_to_others_though_the_controller_stands_still_when_asked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(cluster: SimCluster) -> None:
        await with_topics(cluster)
        cluster.worlds[0].pause()
        await cluster.stop(1)
        image = cluster.brokers[2].broker.image
        assert image.topics["t1"].partitions[0].leader == TWO
        cluster.worlds[0].resume()
        await until(lambda: set(image.brokers) == {ZERO, TWO})

    play(story)
    assert not warnings(caplog, "controlled shutdown is incomplete")


def test_what_cannot_even_be_cancelled_is_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    async def stubborn(ended: asyncio.Event) -> None:
        while not ended.is_set():
            try:
                await ended.wait()
            except asyncio.CancelledError:
                continue

    async def nothing() -> None:
        pass

    async def story() -> None:
        ended, waits = asyncio.Event(), StopWaits()
        began = now()
        await waits.within("the stubborn", stubborn(ended))
        await waits.within("nothing", nothing())
        await waits.until("a wonder", lambda: False, 7.0)
        await waits.until("what is so", lambda: True, 7.0)
        assert PART_SECONDS_MAX + 7.0 <= now() - began < PART_SECONDS_MAX + 7.0 + A_WAY
        waits.report()
        StopWaits().report()
        ended.set()
        await asyncio.sleep(0)

    SimLoop(1).play(story())
    (said,) = warnings(caplog, "the broker stops without")
    assert "longer for: the stubborn (5 s), a wonder (7 s). No action" in said


async def raises(error: Exception | None) -> None:
    if error is not None:
        raise error


@pytest.mark.parametrize("error", [ApiError(ErrorCode.REQUEST_TIMED_OUT, "late"), OSError("full")])
def test_a_part_that_refuses_to_stop_is_reported_and_the_stop_goes_on(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        waits = StopWaits()
        await waits.within("one part", raises(error))
        await waits.within("another", raises(None))
        waits.report()

    SimLoop(1).play(story())
    assert not warnings(caplog, "the broker stops without")
    (failed,) = warnings(caplog, "parts of the broker failed to stop")
    assert f"one part: {error};" in failed
    assert "another" not in failed


@pytest.mark.parametrize("error", [ZeroDivisionError("bug"), InvariantError("broken")])
def test_a_bug_in_a_part_that_stops_is_raised(error: Exception) -> None:
    async def story() -> None:
        with pytest.raises(type(error)):
            await StopWaits().within("one part", raises(error))

    SimLoop(1).play(story())


def test_a_part_that_fails_after_it_was_waited_for_is_no_bug() -> None:
    async def late() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT)

    async def story() -> list[str]:
        unread = list[str]()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: unread.append(context["message"]))
        await StopWaits().within("late", late(), 0.01)
        for _ in range(3):
            await asyncio.sleep(0)
        gc.collect()
        return unread

    assert asyncio.run(story()) == []


HANGS = """
import asyncio, logging, sys
from headrace.config.broker import load
from headrace.server import assembly
from headrace.server.main import serve

async def never(self):
    await asyncio.Event().wait()

logging.basicConfig(stream=sys.stdout, level=logging.INFO)
assembly.Server.stop = never
sys.exit(serve(load(flags={"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": sys.argv[1]})[0]))
"""


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_the_process_at_once(tmp_path: Path, second: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-u", "-c", HANGS, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            heard(process.stdout.readline, "listens on")
            process.send_signal(signal.SIGTERM)
            heard(process.stdout.readline, "a second SIGTERM or Ctrl-C exits at once")
            time.sleep(0.1)
            assert process.poll() is None
            process.send_signal(second)
            assert process.wait(10) == -second
        finally:
            process.kill()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def heard(read: Callable[[], str], words: str) -> None:
    """Read lines until one has these words."""
    while line := read():
        if words in line:
            return
    raise AssertionError(f"not said: {words}")
