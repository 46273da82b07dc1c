"""Copying at a bounded rate (KIP-73): a follower that has fallen behind, its leader, and others."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from headrace.broker.broker import Broker
from headrace.config.descriptions import Alteration, AlterOperation
from headrace.config.keys.topic import FOLLOWERS_THROTTLED, LEADERS_THROTTLED
from headrace.replication.source import Source
from tests.support.sim.cluster import until
from tests.unit.replication.test_followers import FOLLOWER, LEADER, Pair, play

RATE = 200_000
VALUE = bytes(range(250)) * 80
VALUES = 200
"""20 seconds at that rate."""
BYTES = VALUES * len(VALUE)
SMALL = {"replica.fetch.max.bytes": "100000"}
SIDES = {
    "leader": (LEADER, "leader.replication.throttled.rate", LEADERS_THROTTLED),
    "follower": (FOLLOWER, "follower.replication.throttled.rate", FOLLOWERS_THROTTLED),
}


def brokers(pair: Pair) -> list[Broker]:
    return [server.broker for server in pair.cluster.brokers.values()]


async def alter_rate(pair: Pair, side: str, rate: int | None) -> None:
    number, key, _ = SIDES[side]
    operation = AlterOperation.DELETE if rate is None else AlterOperation.SET
    change = [Alteration(key, operation, None if rate is None else str(rate))]
    await pair.cluster.brokers[number].controller.settings.alter_broker(str(number), change)


async def throttle(pair: Pair, side: str, rate: int = RATE, replicas: str = "*") -> None:
    """As kafka-reassign-partitions does: the topic's replicas, then the broker's rate."""
    key = SIDES[side][2]
    change = [Alteration(key, AlterOperation.SET, replicas)]
    await pair.cluster.controller().settings.alter_topic("t", change)
    await until(lambda: all(key in broker.image.topics["t"].config for broker in brokers(pair)))
    await alter_rate(pair, side, rate)


async def behind(pair: Pair, *indexes: int) -> None:
    """Let the follower fall behind by `BYTES` of each partition and leave the ISR."""
    for index in indexes:
        await pair.write(b"first", index=index)
        await pair.equal(index)
    await pair.cluster.stop(FOLLOWER)
    await until(lambda: pair.in_sync() == {LEADER})
    for index in indexes:
        await pair.write(*[VALUE] * VALUES, index=index)


async def back(pair: Pair) -> None:
    """Start the follower again; from then on it fetches."""
    await pair.cluster.start(FOLLOWER)
    await until(lambda: ("t", 0) in pair.cluster.brokers[FOLLOWER].broker.followed)


async def seconds_until(holds: Callable[[], object]) -> float:
    loop = asyncio.get_running_loop()
    began = loop.time()
    await until(holds, 200.0)
    return loop.time() - began


def copied(pair: Pair, index: int = 0) -> int:
    return sum(segment.size for segment in pair.followed(index).log.segments)


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many requests followers have sent: a number for each."""
    sent: list[int] = []
    request = Source._request

    def counted(self: Source) -> Any:
        sent.append(1)
        return request(self)

    monkeypatch.setattr(Source, "_request", counted)
    return sent


@pytest.mark.parametrize("side", SIDES)
def test_a_follower_catches_up_at_the_rate_of_the_throttle(side: str, requests: list[int]) -> None:
    async def story(pair: Pair) -> None:
        await behind(pair, 0)
        if side == "leader":
            await throttle(pair, side)
            await back(pair)
        else:
            await back(pair)
            await throttle(pair, side)
        left, sent = BYTES - copied(pair), len(requests)
        assert left > BYTES / 2
        seconds = await seconds_until(lambda: pair.in_sync() == {LEADER, FOLLOWER})
        assert left / seconds == pytest.approx(RATE, rel=0.2)
        # Each gives something or waits: nobody asks in circles.
        assert len(requests) - sent < seconds * 10
        await pair.equal()

    play(story, 1, SMALL)


@pytest.mark.parametrize("side", SIDES)
def test_other_partitions_go_on_while_one_is_held_back(side: str) -> None:
    async def story(pair: Pair) -> None:
        await behind(pair, 0, 1)
        await throttle(pair, side, replicas=f"0:{SIDES[side][0]}") if side == "leader" else None
        await back(pair)
        if side == "follower":
            await throttle(pair, side, replicas=f"0:{FOLLOWER}")
        assert await seconds_until(lambda: copied(pair, 1) >= BYTES) < 3.0
        assert copied(pair, 0) < BYTES / 2

    play(story, 2, SMALL)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("by", ["rate", "replicas"])
def test_a_throttle_that_is_taken_away_frees_what_it_held_back_at_once(side: str, by: str) -> None:
    async def story(pair: Pair) -> None:
        await behind(pair, 0)
        if side == "leader":
            await throttle(pair, side, 1000)
        await back(pair)
        if side == "follower":
            await throttle(pair, side, 1000)
        await asyncio.sleep(5.0)
        assert copied(pair) < BYTES
        assert pair.in_sync() == {LEADER}
        if by == "rate":
            await alter_rate(pair, side, None)
        else:
            change = [Alteration(SIDES[side][2], AlterOperation.DELETE, None)]
            await pair.cluster.controller().settings.alter_topic("t", change)
        assert await seconds_until(lambda: copied(pair) >= BYTES) < 0.5
        await pair.equal()

    play(story, 1, SMALL)


@pytest.mark.parametrize("side", SIDES)
def test_a_follower_in_sync_is_not_held_up(side: str) -> None:
    async def story(pair: Pair) -> None:
        await pair.write(b"first")
        await pair.equal()
        await throttle(pair, side, 1000)
        broker = pair.cluster.brokers[SIDES[side][0]].broker
        loop = asyncio.get_running_loop()
        began = loop.time()
        await pair.write(*[VALUE] * VALUES)  # acknowledged by both
        assert loop.time() - began < 6.0
        assert pair.in_sync() == {LEADER, FOLLOWER}
        counted = broker.throttles.leader if side == "leader" else broker.throttles.follower
        assert counted.exceeded  # what is in sync counts
        await pair.equal()

    play(story)
