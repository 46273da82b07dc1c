"""A member of a group: when it is told to join again, and what it says of lost commits."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from headrace.client.admin import topics as admin
from headrace.client.admin.groups import Committed
from headrace.client.client import Client
from headrace.client.consumer.member import Member
from headrace.client.sync import connect, run
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.testing import BrokerThread

OFFSETS = {TopicPartition("t", 0): Committed(0)}


@pytest.fixture
def client() -> Iterator[Client]:
    with BrokerThread() as broker, connect(broker.bootstrap) as connected:
        run(admin.create_topic(connected, "t", partitions=2))
        yield connected


async def put_out(member: Member) -> None:
    """Have the coordinator forget the member, which hears nothing of it."""
    other = Member(member.client, member.group, member.topics)
    other.member_id = member.member_id
    await other.leave()


def test_a_member_that_was_put_out_is_told_by_its_next_heartbeat_and_joins_as_new(
    client: Client,
) -> None:
    async def story() -> None:
        member = Member(client, "g", ["t"], session_seconds=10)
        assert len(await member.join()) == 2
        before = member.member_id
        await put_out(member)
        assert await member.heartbeat(), "it is not time to ask yet"
        member._beat_at -= 5
        assert not await member.heartbeat()
        assert member.member_id == ""
        assert len(await member.join()) == 2
        assert member.member_id != before

    run(story())


def test_a_topic_that_was_not_known_when_it_was_shared_out_is_shared_out_later(
    client: Client,
) -> None:
    """The broker that was asked may have just been started, or the topic is made only now."""

    async def story() -> None:
        member = Member(client, "g", ["t", "late"], session_seconds=10)
        assert len(await member.join()) == 2
        member._beat_at -= 5
        assert await member.heartbeat()
        await admin.create_topic(client, "late", partitions=3)
        member._beat_at -= 5
        assert not await member.heartbeat()
        assert len(await member.join()) == 5
        member._beat_at -= 5
        assert await member.heartbeat()

    run(story())


def test_commits_of_a_generation_that_is_over_are_said_not_to_be_made(client: Client) -> None:
    async def story() -> None:
        member = Member(client, "g", ["t"])
        await member.join()
        assert await member.commit(OFFSETS)
        await put_out(member)
        assert not await member.commit(OFFSETS)

    run(story())


def test_a_static_member_that_leaves_keeps_its_place(client: Client) -> None:
    async def story() -> None:
        member = Member(client, "g", ["t"], instance_id="i", session_seconds=10)
        await member.join()
        before = member.member_id
        await member.leave()
        assert member.member_id == before
        member._beat_at -= 5
        assert await member.heartbeat()

    run(story())


@pytest.mark.parametrize(
    ("code", "stays"),
    [
        (ErrorCode.UNKNOWN_MEMBER_ID, False),
        (ErrorCode.ILLEGAL_GENERATION, True),
        (ErrorCode.REBALANCE_IN_PROGRESS, True),
    ],
)
def test_a_member_that_is_not_told_what_to_read_joins_again(
    client: Client, monkeypatch: pytest.MonkeyPatch, code: ErrorCode, stays: bool
) -> None:
    async def story() -> None:
        member = Member(client, "g", ["t"], session_seconds=10)
        usual = member._ask_sync
        ids: list[str] = []

        async def sync(joined: Any, shares: Mapping[str, bytes]) -> Sequence[TopicPartition]:
            ids.append(member.member_id)
            if len(ids) == 1:
                raise ApiError(code)
            return await usual(joined, shares)

        monkeypatch.setattr(member, "_ask_sync", sync)
        joined = await member.join() if stays else await joined_anew(member)
        assert len(joined) == 2
        assert len(ids) == 2
        assert (ids[0] == ids[1]) == stays

    async def joined_anew(member: Member) -> Sequence[TopicPartition]:
        """Join while the coordinator forgets whom it knew first."""
        await put_out_later(member)
        return await member.join()

    async def put_out_later(member: Member) -> None:
        usual = member._ask_join

        async def ask() -> Any:
            if not member.member_id and forgotten:
                member.member_id = forgotten.pop()
                await put_out(member)
                member.member_id = ""
            joined = await usual()
            forgotten.append(member.member_id)
            return joined

        forgotten: list[str] = []
        monkeypatch.setattr(member, "_ask_join", ask)

    run(story())


def test_a_refusal_that_lasts_ends_the_joining(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = Member(client, "g", ["t"])

    async def refused(*_: object) -> None:
        raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)

    monkeypatch.setattr(member, "_ask_sync", refused)
    with pytest.raises(ApiError) as raised:
        run(member.join())
    assert raised.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
