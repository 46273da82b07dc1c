"""Leaders that cannot be reached: what is logged and counted, and what recovery resets."""

import asyncio
import logging

import pytest

from headrace.client.transport.port import ConnectionLost
from headrace.replication.fetchers import ReplicaFetchers
from headrace.replication.source import Source
from headrace.wire.kafka.hot.fetch import FetchRequest
from tests.support.sim.cluster import until
from tests.unit.replication.test_followers import FOLLOWER, Pair, play
from tests.unit.replication.test_throttled import (
    BYTES,
    SMALL,
    alter_rate,
    back,
    behind,
    copied,
    throttle,
)


@pytest.fixture
def fetchers(monkeypatch: pytest.MonkeyPatch) -> list[ReplicaFetchers]:
    """All fetchers, in the order in which brokers create them."""
    made: list[ReplicaFetchers] = []
    init = ReplicaFetchers.__init__

    def noted(self: ReplicaFetchers, *arguments: object) -> None:
        init(self, *arguments)  # type: ignore[arg-type]
        made.append(self)

    monkeypatch.setattr(ReplicaFetchers, "__init__", noted)
    return made


def test_each_outage_of_a_leader_is_logged_once_and_counted_while_it_lasts(
    fetchers: list[ReplicaFetchers],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    exchange, is_away = Source._exchange, [False]

    async def away(self: Source) -> None:
        if is_away[0]:
            raise ConnectionLost("gone")
        await exchange(self)

    monkeypatch.setattr(Source, "_exchange", away)

    async def story(pair: Pair) -> None:
        (following,) = (each for each in fetchers if each.followed)
        for _ in range(2):
            await pair.write(b"before")
            await pair.equal()
            assert following.failing == 0
            is_away[0] = True
            await asyncio.sleep(3)
            assert following.failing == 1
            is_away[0] = False
            await pair.write(b"after")
            await pair.equal()
        assert following.failing == 0

    with caplog.at_level(logging.WARNING, "headrace.replication"):
        play(story)
    told = [text for text in caplog.messages if "cannot fetch from broker 1" in text]
    assert len(told) == 2, told


def test_the_backoff_of_a_leader_starts_afresh_after_a_response(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exchange, times = Source._exchange, list[float]()
    left = [0]

    async def away(self: Source) -> None:
        if left[0]:
            left[0] -= 1
            times.append(asyncio.get_running_loop().time())
            raise ConnectionLost("gone")
        await exchange(self)

    monkeypatch.setattr(Source, "_exchange", away)

    async def story(pair: Pair) -> None:
        await pair.write(b"0")
        await pair.equal()
        for value in (b"1", b"2"):
            left[0] = 4
            await pair.write(value)
            await pair.equal()
            assert left == [0]

    play(story)
    first, second = times[:4], times[4:]
    assert second[3] - second[0] == pytest.approx(first[3] - first[0], rel=0.01)


def test_fetchers_that_are_closed_follow_no_partition_and_listen_to_no_log(
    fetchers: list[ReplicaFetchers],
) -> None:
    async def story(pair: Pair) -> None:
        await pair.write(b"1")
        await pair.equal()
        (following,) = (each for each in fetchers if each.followed)
        log = pair.followed().log
        listening = len(log.listeners)
        following.close()
        assert (following.followed, following.failing) == (0, 0)
        assert len(log.listeners) == listening - 1
        await asyncio.sleep(1)
        following.follow(pair.followed())
        await pair.write(b"2")
        await pair.equal()

    play(story)


def test_a_fetch_session_begins_anew_after_a_lost_response(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The leader may have counted the request, so its next session epoch is unknown."""
    exchange, request = Source._exchange, Source._request
    is_lost, epochs = [False], list[int]()

    async def lost(self: Source) -> None:
        await exchange(self)
        if is_lost[0]:
            is_lost[0] = False
            epochs.clear()
            raise ConnectionLost("gone")

    def noted(self: Source) -> FetchRequest:
        made = request(self)
        epochs.append(made.session_epoch)
        return made

    monkeypatch.setattr(Source, "_exchange", lost)
    monkeypatch.setattr(Source, "_request", noted)

    async def story(pair: Pair) -> None:
        await pair.write(b"1", b"2")
        await pair.equal()
        is_lost[0] = True
        await pair.write(b"3", b"4")
        await pair.equal()
        assert epochs[:2] == [0, 1]

    play(story)


def test_a_paused_partition_that_follows_no_longer_is_forgotten(
    fetchers: list[ReplicaFetchers],
) -> None:
    async def story(pair: Pair) -> None:
        await behind(pair, 0, 1)
        await back(pair)
        await throttle(pair, "follower", 1000, replicas=f"0:{FOLLOWER}")
        following = fetchers[-1]
        source = following._source_of["t", 0]
        await until(lambda: source._paused.count == 1)
        following.forget(pair.followed(0))
        assert source._paused.count == 0
        await alter_rate(pair, "follower", None)
        await until(lambda: copied(pair, 1) >= BYTES)

    play(story, 2, SMALL)
