"""Followers that have fallen behind: by how many conversations they fetch what they lack."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from headrace.replication.fetch_responses import Arrived, FetchResponses
from headrace.replication.fetch_session import Key
from headrace.replication.source import Source
from tests.support.sim.cluster import until
from tests.unit.replication.test_followers import FOLLOWER, Pair, play
from tests.unit.replication.test_throttled import SMALL, back, behind

PARTITIONS = 4


class Asking:
    """The conversations that there are with leaders."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Forget what was."""
        self.requests = 0
        self.sources: set[Source] = set()
        self.most = 0
        """How many there were at one time."""

    def noted(self, source: Source) -> None:
        self.requests += 1
        self.sources.add(source)
        self.most = max(self.most, len(self.present()))

    def present(self) -> list[int]:
        """Return how many partitions each one has."""
        return sorted(len(source.members) for source in self.sources if source.members)


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> Asking:
    """What followers ask their leaders."""
    asking = Asking()
    request = Source._request

    def noted(self: Source) -> Any:
        asking.noted(self)
        return request(self)

    monkeypatch.setattr(Source, "_request", noted)
    return asking


async def caught_up(pair: Pair, indexes: Sequence[int] = range(PARTITIONS)) -> None:
    for index in indexes:
        await pair.equal(index)


async def write_to_all(pair: Pair) -> None:
    for index in range(PARTITIONS):
        await pair.write(b"more", index=index)
        await pair.equal(index)


@pytest.mark.parametrize(("fetchers", "most"), [("1", 1), ("2", 2), ("3", 3), ("9", PARTITIONS)])
def test_partitions_that_catch_up_are_spread_over_conversations_and_share_one_in_sync(
    fetchers: str, most: int, asking: Asking
) -> None:
    async def story(pair: Pair) -> None:
        await behind(pair, *range(PARTITIONS))
        asking.begin()
        await back(pair)
        await caught_up(pair)
        assert asking.most == most
        await write_to_all(pair)
        asking.begin()
        await write_to_all(pair)
        assert asking.present() == [PARTITIONS]

    play(story, PARTITIONS, {**SMALL, "num.replica.fetchers": fetchers})


def test_each_conversation_has_as_many_of_those_that_catch_up(asking: Asking) -> None:
    async def story(pair: Pair) -> None:
        await behind(pair, *range(PARTITIONS))
        asking.begin()
        await back(pair)
        await until(lambda: asking.requests >= 10)  # of 40 that it takes
        assert asking.present() == [2, 2]
        await caught_up(pair)

    play(story, PARTITIONS, SMALL)


def test_one_partition_that_catches_up_needs_no_other_conversation(asking: Asking) -> None:
    async def story(pair: Pair) -> None:
        await behind(pair, 2)
        asking.begin()
        await back(pair)
        await caught_up(pair, [2])
        assert asking.most == 1

    play(story, PARTITIONS, SMALL)


def test_full_answers_of_partitions_in_sync_are_no_reason_for_another_conversation(
    asking: Asking,
) -> None:
    async def story(pair: Pair) -> None:
        values = [bytes(20_000)] * 20
        await asyncio.gather(*(pair.write(*values, index=index) for index in range(PARTITIONS)))
        await caught_up(pair)
        assert asking.most == 1

    play(story, PARTITIONS, {"replica.fetch.max.bytes": "30000", "num.replica.fetchers": "4"})


def test_a_broker_that_stops_while_it_catches_up_ends_every_conversation(
    asking: Asking,
) -> None:
    async def story(pair: Pair) -> None:
        await behind(pair, *range(PARTITIONS))
        asking.begin()
        await back(pair)
        await until(lambda: asking.most == 2)
        await pair.cluster.stop(FOLLOWER)
        asking.begin()
        await asyncio.sleep(2)
        assert not asking.requests
        await back(pair)
        await caught_up(pair)

    play(story, PARTITIONS, SMALL)


def test_a_conversation_whose_partitions_all_go_while_an_answer_is_taken_ends_in_silence(
    asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by the simulator: the conversation was over when it told who catches up."""
    take = FetchResponses.take
    due: list[bool] = []
    ended: list[FetchResponses] = []

    async def taken(self: FetchResponses, arrived: Sequence[Arrived]) -> list[Key]:
        missed = await take(self, arrived)
        if len(arrived) > 1 and due and not ended:
            ended.append(self)
            for member, _ in arrived:
                for told in self._broker.unfollowed:
                    told(member.partition)
        return missed

    monkeypatch.setattr(FetchResponses, "take", taken)

    async def story(pair: Pair) -> None:
        await behind(pair, *range(PARTITIONS))
        due.append(True)
        await back(pair)
        await until(lambda: ended)
        asking.begin()
        await asyncio.sleep(2)
        assert not asking.requests

    play(story, PARTITIONS, SMALL)
