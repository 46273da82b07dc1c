"""Fetches of many partitions that wait: what is looked at, what is watched, what is told."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.partition import Partition
from headrace.cluster.topics.creation import NewTopic
from headrace.frontends.kafka.connection.dispatch import Dispatcher
from headrace.frontends.kafka.connection.registry import APIS
from headrace.frontends.kafka.fetch import fetch as fetch_api
from headrace.frontends.kafka.fetch import fetch_sessions
from headrace.log.retention import apply_retention
from headrace.model.nouns import Offset
from headrace.net.pending import Pending
from headrace.testing.disk import SimDisk
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.hot import fetch
from headrace.wire.kafka.hot.fetch_response import FetchedPartition, FetchResponse, decode_response
from tests.support.processes.broker import Room, play, room

TOPIC, PARTITIONS, VERSION = "t", 40, 12


class Reader:
    """A client of every partition; `fetch` asks on in its session, or without one."""

    def __init__(self, here: Room, *, session: bool = True) -> None:
        self.here = here
        dispatcher = Dispatcher(
            here.broker, here.coordinators, here.controller, APIS, here.broker.metrics
        )
        self.shared = dispatcher.shared
        self.session = session
        self.session_id = 0
        self.epoch = 0
        self.offsets = [0] * PARTITIONS

    def ask(self, *indexes: int, wait_ms: int = 60_000, min_bytes: int = 1) -> Any:
        """Send one request, which names `indexes`, and all where a session begins."""
        named = indexes if self.epoch > 0 else range(PARTITIONS)
        parts = [fetch.FetchPartition(at, -1, self.offsets[at], -1, -1, 1 << 20) for at in named]
        topics = [fetch.FetchTopic(TOPIC, bytes(16), parts)] if parts else []
        epoch = self.epoch if self.session else -1
        request = fetch.FetchRequest(wait_ms, min_bytes, 1 << 20, 0, self.session_id, epoch, topics)
        context = self.here.context(ApiKey.FETCH, VERSION)
        context.shared = self.shared
        if self.session:
            self.epoch += 1
        return fetch_api.handle(
            context, memoryview(bytearray(fetch.encode_request(VERSION, request)))
        )

    async def told(self, answer: Any) -> dict[int, FetchedPartition]:
        """The partitions in the answer, once it is there."""
        if isinstance(answer, Pending):
            for _ in range(1000):
                if answer.done:
                    break
                await asyncio.sleep(0)
            assert answer.done
            answer = answer.parts()
        response: FetchResponse = decode_response(VERSION, memoryview(b"".join(answer)))
        assert response.error_code == 0
        self.session_id = response.session_id
        return {part.partition: part for topic in response.topics for part in topic.partitions}

    async def begin(self) -> None:
        """Have the session, and be told where everything begins and ends."""
        await self.told(self.ask(wait_ms=0))

    def partition(self, index: int) -> Partition:
        return self.here.broker.partition(TOPIC, index)

    def watched(self) -> int:
        return sum(len(self.partition(at)._watchers) for at in range(PARTITIONS))


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts reads of partitions and requests to be woken by them."""
    counts: Counter[str] = Counter()
    for name in ("serve", "watch"):
        plain: Any = getattr(Partition, name)

        def counted(
            partition: Partition, *args: Any, _name: str = name, _plain: Any = plain, **kw: Any
        ) -> Any:
            counts[_name] += 1
            return _plain(partition, *args, **kw)

        monkeypatch.setattr(Partition, name, counted)
    return counts


async def turns() -> None:
    """Let everything that is due happen."""
    for _ in range(20):
        await asyncio.sleep(0)


async def topic(here: Room) -> None:
    await here.controller.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])


def test_a_session_that_waits_looks_only_at_what_has_more(
    tmp_path: Path, looks: Counter[str]
) -> None:
    async def story() -> None:
        async with room(tmp_path, SimDisk()) as here:
            await topic(here)
            reader = Reader(here)
            await reader.begin()
            assert looks == {"serve": PARTITIONS, "watch": PARTITIONS}
            for turn in range(5):
                looks.clear()
                answer = reader.ask(*([7] if turn else []))
                assert isinstance(answer, Pending)
                assert not answer.done
                here.write(TOPIC, 7)
                found = await reader.told(answer)
                assert list(found) == [7]
                assert found[7].high_watermark == turn + 1
                reader.offsets[7] += 1
                assert looks["serve"] <= 2
                assert looks["watch"] == 0

    play(story())


def test_a_request_without_a_session_looks_at_all_once_and_then_at_what_has_more(
    tmp_path: Path, looks: Counter[str]
) -> None:
    async def story() -> None:
        async with room(tmp_path, SimDisk()) as here:
            await topic(here)
            reader = Reader(here, session=False)
            answer = reader.ask(min_bytes=1 << 10)
            assert looks == {"serve": PARTITIONS, "watch": PARTITIONS}
            assert reader.watched() == PARTITIONS
            clock: Any = here.broker.clock
            for _ in range(3):
                here.write(TOPIC, 3, b"x" * 200)
                await turns()
                clock.advance(0.01)
                await turns()
                assert not answer.done
            assert PARTITIONS < looks["serve"] <= PARTITIONS + 3
            here.write(TOPIC, 4, b"x" * 1000)
            await turns()
            clock.advance(0.01)
            found = await reader.told(answer)
            assert len(found) == PARTITIONS
            assert [at for at, part in found.items() if part.records] == [3, 4]
            assert looks["watch"] == PARTITIONS
            assert reader.watched() == 0

    play(story())


@pytest.mark.parametrize("ends", ["abandoned", "expired"])
def test_nothing_is_watched_for_a_request_that_is_over(tmp_path: Path, ends: str) -> None:
    async def story() -> None:
        async with room(tmp_path, SimDisk()) as here:
            await topic(here)
            reader = Reader(here, session=False)
            await reader.told(reader.ask(wait_ms=0))
            assert reader.watched() == 0
            answer = reader.ask(wait_ms=500, min_bytes=1 << 10)
            assert reader.watched() == PARTITIONS
            here.write(TOPIC, 6)
            await turns()
            if ends == "abandoned":
                answer.abandon()
            else:
                clock: Any = here.broker.clock
                clock.advance(1)
                assert len(await reader.told(answer)) == PARTITIONS
            assert reader.watched() == 0

    play(story())


@pytest.mark.parametrize("waits", [False, True])
def test_nothing_is_watched_for_a_session_that_was_ended(tmp_path: Path, waits: bool) -> None:
    async def story() -> None:
        async with room(tmp_path, SimDisk()) as here:
            await topic(here)
            reader = Reader(here)
            await reader.begin()
            answer = reader.ask() if waits else None
            reader.shared.fetch_sessions.close(reader.session_id)
            assert reader.watched() == (PARTITIONS if waits else 0)
            if answer is not None:
                here.write(TOPIC, 5)
                assert list(await reader.told(answer)) == [5]
                assert reader.watched() == 0

    play(story())


def test_nothing_is_watched_for_a_session_that_made_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_sessions, "EVICTION_SECONDS", -1.0)

    async def story() -> None:
        async with room(tmp_path, SimDisk(), max_incremental_fetch_session_cache_slots="1") as here:
            await topic(here)
            reader = Reader(here)
            await reader.begin()
            other = Reader(here)
            other.shared = reader.shared
            await other.begin()
            assert len(reader.shared.fetch_sessions) == 1
            assert reader.watched() == PARTITIONS

    play(story())


@pytest.mark.parametrize("how", ["deleted", "retained"])
def test_a_log_that_begins_elsewhere_is_told_without_a_new_record(tmp_path: Path, how: str) -> None:
    async def story() -> None:
        async with room(tmp_path, SimDisk()) as here:
            await topic(here)
            for _ in range(3):
                here.write(TOPIC, 2)
            await turns()
            reader = Reader(here)
            reader.offsets[2] = 3
            await reader.begin()
            assert await reader.told(reader.ask(wait_ms=0)) == {}
            if how == "deleted":
                reader.partition(2).delete_records(Offset(2))
                start = 2
            else:
                in_a_month = here.broker.clock.wall_ms() + 30 * 86_400_000
                assert apply_retention(reader.partition(2).log, in_a_month) == 1
                start = 3
            found = await reader.told(reader.ask(wait_ms=0))
            assert {at: part.log_start_offset for at, part in found.items()} == {2: start}
            assert await reader.told(reader.ask(wait_ms=0)) == {}

    play(story())


def test_what_an_abandoned_request_was_about_to_tell_the_next_one_tells(tmp_path: Path) -> None:
    async def story() -> None:
        async with room(tmp_path, SimDisk()) as here:
            await topic(here)
            for _ in range(3):
                here.write(TOPIC, 2)
            await turns()
            reader = Reader(here)
            reader.offsets[2] = 3
            await reader.begin()
            reader.partition(2).delete_records(Offset(1))
            reader.ask().abandon()
            found = await reader.told(reader.ask(wait_ms=0))
            assert {at: part.log_start_offset for at, part in found.items()} == {2: 1}

    play(story())


def test_a_request_that_waits_is_answered_when_its_session_goes_on(tmp_path: Path) -> None:
    async def story() -> None:
        async with room(tmp_path, SimDisk()) as here:
            await topic(here)
            reader = Reader(here)
            await reader.begin()
            first = reader.ask()
            second = reader.ask()
            assert await reader.told(first) == {}
            assert not second.done
            here.write(TOPIC, 1)
            assert list(await reader.told(second)) == [1]

    play(story())
