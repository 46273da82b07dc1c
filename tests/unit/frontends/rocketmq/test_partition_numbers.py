"""Numbers of partitions in the metadata store: never given twice, and gone with their topics."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.metadata_image import PartitionInfo, TopicInfo
from headrace.frontends.rocketmq.partition_numbers import NEXT, TOPICS, PartitionNumbers
from headrace.log import file_names
from headrace.model.nouns import BrokerId, LeaderEpoch
from headrace.ports.store import SessionLost
from headrace.posix.store.embedded_store import EmbeddedStore
from headrace.testing.clock import SimClock


def topic(letter: str, partitions: int) -> TopicInfo:
    """Return a topic whose id is 16 times the letter."""
    me = BrokerId(0)
    infos = (PartitionInfo(at, me, LeaderEpoch(0), (me,), (me,)) for at in range(partitions))
    return TopicInfo(letter, letter.encode() * 16, tuple(infos))


def play(where: Path, story: Callable[[EmbeddedStore], Awaitable[None]]) -> None:
    async def played() -> None:
        store = EmbeddedStore(str(where / file_names.METADATA))
        await story(store)
        await store.close()

    asyncio.run(played())


def numbers_of(store: EmbeddedStore) -> PartitionNumbers:
    return PartitionNumbers(store, SimClock(1_000))


def test_numbers_of_a_deleted_topic_leave_the_store_and_are_not_given_again(
    tmp_path: Path,
) -> None:
    async def story(store: EmbeddedStore) -> None:
        numbers = numbers_of(store)
        assert list(await numbers.assigned(topic("a", 2))) == [0, 1]
        assert list(await numbers.assigned(topic("b", 1))) == [2]
        assert list(await numbers.assigned(topic("a", 3))) == [0, 1, 3]
        assert numbers.added_ms(topic("a", 3), 2) == 1_000
        gone = numbers.forget({topic("b", 1).topic_id})
        assert gone == {topic("a", 2).topic_id}
        await numbers.delete(gone)
        await numbers.delete(gone)
        assert await store.children(TOPICS) == [topic("b", 1).topic_id.hex()]
        assert (await store.get(NEXT)).value == b"4"
        assert not numbers.is_used(topic("a", 2))
        assert numbers.added_ms(topic("a", 3), 2) == 0
        assert await numbers.located(0) is None, "a message id of the deleted topic"
        assert list(await numbers.assigned(topic("c", 2))) == [4, 5]

    play(tmp_path, story)


def test_numbers_that_two_brokers_assign_at_once_are_given_once(tmp_path: Path) -> None:
    async def story(store: EmbeddedStore) -> None:
        brokers = [numbers_of(store) for _ in range(4)]
        given = await asyncio.gather(
            *(each.assigned(topic("abcd"[at], 2)) for at, each in enumerate(brokers))
        )
        assert sorted(number for numbers in given for number in numbers) == list(range(8))
        same = await asyncio.gather(*(each.assigned(topic("e", 3)) for each in brokers))
        assert all(list(numbers) == [8, 9, 10] for numbers in same)
        assert (await store.get(NEXT)).value == b"11"

    play(tmp_path, story)


def test_start_deletes_the_numbers_of_topics_deleted_while_it_was_down(tmp_path: Path) -> None:
    async def before(store: EmbeddedStore) -> None:
        for letter in "abc":
            await numbers_of(store).assigned(topic(letter, 1))

    async def after(store: EmbeddedStore) -> None:
        numbers = numbers_of(store)
        await numbers.prune([topic("b", 1).topic_id])
        assert await store.children(TOPICS) == [topic("b", 1).topic_id.hex()]
        assert list(await numbers.assigned(topic("b", 2))) == [1, 3]

    play(tmp_path, before)
    play(tmp_path, after)


def test_start_of_a_broker_without_numbers_deletes_nothing(tmp_path: Path) -> None:
    async def story(store: EmbeddedStore) -> None:
        await numbers_of(store).prune([])
        assert list(await numbers_of(store).assigned(topic("a", 1))) == [0]

    play(tmp_path, story)


def test_deletion_that_the_store_refuses_is_left_to_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(*_: Any) -> None:
        raise SessionLost("away")

    async def story(store: EmbeddedStore) -> None:
        numbers = numbers_of(store)
        for letter in "ab":
            await numbers.assigned(topic(letter, 1))
        with monkeypatch.context() as patched:
            patched.setattr(store, "delete", lost)
            await numbers.delete(numbers.forget(set()))
        assert len(await store.children(TOPICS)) == 2
        assert list(await numbers.assigned(topic("a", 1))) == [0], "the store is asked again"
        await numbers_of(store).prune([])
        assert await store.children(TOPICS) == []

    play(tmp_path, story)
