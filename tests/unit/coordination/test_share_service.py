"""What a broker answers of its share groups: who there is, their offsets, and when all ends."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.coordination.groups.share.describe_offsets import OffsetSeen, TopicSeen
from headrace.coordination.groups.share.heartbeat import Heartbeat
from headrace.coordination.share.acknowledgements import AckKind
from headrace.coordination.share.sessions import SessionKey
from headrace.coordination.share.share_service import DescribedShareGroup
from headrace.model.errors import ApiError, ErrorCode
from tests.support.coordination.share_room import GROUP, TOPIC, ShareRoom, kept, share_room
from tests.support.processes.broker import play, until

if TYPE_CHECKING:
    from headrace.coordination.groups.modern.heartbeat import HeartbeatAnswer
    from headrace.coordination.groups.share.model import Assigned

E = ErrorCode


def tell(place: Path, story: Callable[[ShareRoom], Any], **more: Any) -> None:
    async def whole() -> None:
        async with share_room(place, **more) as share:
            await story(share)

    play(whole())


async def outcome(ask: Callable[[Callable[[Any], None]], None]) -> Any:
    """What `ask` has its callback told, once and no more."""
    told: list[Any] = []
    ask(told.append)
    await until(lambda: told)
    assert len(told) == 1
    return told[0]


async def alter(share: ShareRoom, wanted: list[tuple[str, dict[int, int]]]) -> Any:
    return await outcome(lambda done: share.share.alter_offsets(GROUP, wanted, done))


async def describe(share: ShareRoom, group: str, wanted: list[tuple[str, list[int]]] | None) -> Any:
    return await outcome(lambda done: share.share.describe_offsets(group, wanted, done))


async def delete(share: ShareRoom, *names: str, group: str = GROUP) -> Any:
    return await outcome(lambda done: share.share.delete_offsets(group, names, done))


def test_a_heartbeat_that_cannot_be_taken_is_answered_by_why(tmp_path: Path) -> None:
    async def story(share: ShareRoom) -> None:
        answers: list[HeartbeatAnswer[Assigned]] = []
        share.share.heartbeat(Heartbeat("", "m", 0, None, (TOPIC,), "c", "/h"), answers.append)
        (answer,) = answers
        assert isinstance(answer.error, ErrorCode)
        assert answer.error is not E.NONE
        assert isinstance(answer.message, str)

    tell(tmp_path, story)


def test_a_heartbeat_is_refused_while_the_group_has_members_of_another_protocol(
    tmp_path: Path,
) -> None:
    async def story(share: ShareRoom) -> None:
        answers: list[HeartbeatAnswer[Assigned]] = []
        share.share._groups().elsewhere = {"g": "RocketMQ"}.get
        share.share.heartbeat(Heartbeat("g", "m", 0, None, (TOPIC,), "c", "/h"), answers.append)
        (answer,) = answers
        assert answer.error is E.INCONSISTENT_GROUP_PROTOCOL
        assert "RocketMQ" in (answer.message or "")

    tell(tmp_path, story)


def test_a_group_is_described_where_it_is_and_told_missing_where_it_is_not(tmp_path: Path) -> None:
    async def story(share: ShareRoom) -> None:
        service = share.share
        missing = DescribedShareGroup(GROUP, E.GROUP_ID_NOT_FOUND, f"Group {GROUP} not found.")
        assert service.describe(GROUP) == missing
        assert not service.is_share_group(GROUP)
        assert service.describe("").error is E.INVALID_GROUP_ID
        assert not service.is_share_group("")
        await share.join("a")
        found = service.describe(GROUP)
        assert (found.group_id, found.error, found.message) == (GROUP, E.NONE, None)
        assert found.group is not None
        assert list(found.group.members) == ["a"]
        assert service.is_share_group(GROUP)

    tell(tmp_path, story)


def test_groups_are_listed_by_type_and_state_whatever_their_case(tmp_path: Path) -> None:
    async def story(share: ShareRoom) -> None:
        assert share.share.list_groups() == []
        await share.join("a")

        def listed(states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> list[str]:
            return [group.group_id for group in share.share.list_groups(states, types)]

        assert listed() == listed((), ("SHARE",)) == listed(("sTABLE",)) == [GROUP]
        assert listed((), ("consumer",)) == listed(("Empty",)) == []

    tell(tmp_path, story)


def test_offsets_are_altered_for_partitions_that_are_there_and_no_others(tmp_path: Path) -> None:
    async def story(share: ShareRoom) -> None:
        topic_id = share.key(0).topic_id
        await share.write(5)
        error, outcomes = await alter(share, [("u", {0: 1}), (TOPIC, {-1: 2, 0: 3, 2: 4})])
        assert error is None
        unknown = E.UNKNOWN_TOPIC_OR_PARTITION
        assert [(found.name, found.topic_id, found.partitions) for found in outcomes] == [
            ("u", None, {0: unknown}),
            (TOPIC, topic_id, {-1: unknown, 0: E.NONE, 2: unknown}),
        ]
        (seen,) = await describe(share, GROUP, None)
        assert (seen.name, seen.topic_id) == (TOPIC, topic_id)
        assert [(part.partition, part.start, part.lag) for part in seen.partitions] == [(0, 3, 2)]
        assert await share.fetch("a") == {3: 1, 4: 1}

    tell(tmp_path, story, partitions=2)


def test_altering_nothing_that_is_there_makes_no_group(tmp_path: Path) -> None:
    async def story(share: ShareRoom) -> None:
        error, outcomes = await alter(share, [("u", {0: 1})])
        assert error is None
        assert len(outcomes) == 1
        assert not share.share.is_share_group(GROUP)

    tell(tmp_path, story)


def test_each_alteration_begins_a_new_state_epoch(tmp_path: Path) -> None:
    async def story(share: ShareRoom) -> None:
        await alter(share, [(TOPIC, {0: 0})])
        first = share.state_epoch()
        await alter(share, [(TOPIC, {0: 0})])
        assert share.state_epoch() == first + 1

    tell(tmp_path, story)


def test_a_group_with_members_keeps_its_offsets(tmp_path: Path) -> None:
    async def story(share: ShareRoom) -> None:
        await share.join("a")
        for error, outcomes in (await alter(share, [(TOPIC, {0: 1})]), await delete(share, TOPIC)):
            assert isinstance(error, ApiError)
            assert error.code is E.NON_EMPTY_GROUP
            assert outcomes == []
        told = await outcome(lambda done: share.share.delete_group(GROUP, done))
        assert told is E.NON_EMPTY_GROUP

    tell(tmp_path, story)


def test_deleted_offsets_are_gone_and_those_never_kept_are_told(tmp_path: Path) -> None:
    async def story(share: ShareRoom) -> None:
        await alter(share, [(TOPIC, {0: 0, 1: 0})])
        error, outcomes = await delete(share, TOPIC, "u")
        assert error is None
        assert [(found.name, found.error) for found in outcomes] == [
            (TOPIC, E.NONE),
            ("u", E.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        assert share.kept(0) is None
        assert share.kept(1) is None
        assert await describe(share, GROUP, None) == []
        _, ((_, topic_id, code, message, _),) = await delete(share, TOPIC)
        assert (topic_id, code) == (share.key(0).topic_id, E.UNKNOWN_TOPIC_OR_PARTITION)
        assert message == "There is no offset information to delete."

    tell(tmp_path, story, partitions=2)


@pytest.mark.parametrize(("group", "code"), [("", E.INVALID_GROUP_ID), ("x", E.GROUP_ID_NOT_FOUND)])
def test_offsets_of_no_group_are_refused_by_why(
    tmp_path: Path, group: str, code: ErrorCode
) -> None:
    async def story(share: ShareRoom) -> None:
        error, outcomes = await delete(share, TOPIC, group=group)
        assert (error.code, outcomes) == (code, [])
        told = await outcome(lambda done: share.share.delete_group(group, done))
        assert told is code
        assert (await describe(share, group, None)).code is code
        if not group:
            ask = share.share.alter_offsets
            error, outcomes = await outcome(lambda done: ask(group, [(TOPIC, {0: 1})], done))
            assert (error.code, outcomes) == (code, [])

    tell(tmp_path, story)


def test_a_deleted_group_is_gone_with_its_state(tmp_path: Path) -> None:
    async def story(share: ShareRoom) -> None:
        await alter(share, [(TOPIC, {0: 0})])
        told = await outcome(lambda done: share.share.delete_group(GROUP, done))
        assert told is E.NONE
        assert not share.share.is_share_group(GROUP)
        assert share.kept(0) is None

    tell(tmp_path, story)


def test_the_end_of_a_session_gives_back_what_its_member_held(tmp_path: Path) -> None:
    async def story(share: ShareRoom) -> None:
        await share.join("a", "b")
        await share.write(2)
        assert await share.fetch("a") == {0: 1, 1: 1}
        session = share.share.sessions.open(SessionKey(GROUP, "a"), 10)
        ended: list[bool] = []
        share.share.end_session(session, lambda: ended.append(True))
        await until(lambda: ended)
        assert len(share.share.sessions) == 0
        assert await share.fetch("b") == {0: 2, 1: 2}
        assert ended == [True]

    tell(tmp_path, story)


def test_who_held_nothing_has_its_session_ended_at_once(tmp_path: Path) -> None:
    async def story(share: ShareRoom) -> None:
        session = share.share.sessions.open(SessionKey("other", "a"), 10)
        ended: list[bool] = []
        share.share.end_session(session, lambda: ended.append(True))
        assert ended == [True]

    tell(tmp_path, story)


def test_a_topic_that_is_deleted_takes_the_groups_state_with_it(tmp_path: Path) -> None:
    async def story(share: ShareRoom) -> None:
        await share.join("a")
        key = share.key(0)
        await share.here.controller.delete_topics([TOPIC])
        await until(lambda: kept(share.share.states, key) is None)
        group = share.share.describe(GROUP).group
        assert group is not None
        await until(lambda: not group.initialized)

    tell(tmp_path, story)


def test_all_share_partitions_end_with_the_service(tmp_path: Path) -> None:
    async def story(share: ShareRoom) -> None:
        await share.join("a")
        await share.write(1)
        await share.fetch("a")
        found, woken = await share.partition(), list[bool]()
        found.delivery.watch(lambda: woken.append(True))
        share.share.close()
        assert found.error is not None
        assert found.error.code is E.NOT_LEADER_OR_FOLLOWER
        assert woken == [True]
        assert list(share.share.partitions) == []
        assert list(share.share.states.led) == []
        told: list[ApiError | None] = []
        found.when_loaded(told.append)
        assert told == [found.error]

    tell(tmp_path, story)


def test_state_that_is_kept_elsewhere_is_answered_so(tmp_path: Path) -> None:
    async def story(share: ShareRoom) -> None:
        await share.join("a")
        await share.write(1)
        await share.fetch("a")
        key, states = share.key(0), share.share.states
        states.led.close()
        settled: list[bool] = []
        states.when_settled(key, lambda: settled.append(True))
        assert settled == [True]
        for ask in (partial(states.read, key, 0), partial(states.read_summary, key)):
            assert (await outcome(ask)).code is E.NOT_COORDINATOR
        assert await outcome(lambda done: states.make([key], 1, done)) is E.NOT_COORDINATOR
        begun = await outcome(lambda done: states.initialize([(key, 0)], 1, done))
        assert begun is E.NOT_COORDINATOR
        assert await outcome(lambda done: states.delete([key], done)) is E.NOT_COORDINATOR
        # To members all coordinators out of reach are one.
        found = await share.partition()
        assert await share.ack("a", 0, 0, AckKind.ACCEPT) is E.COORDINATOR_NOT_AVAILABLE
        assert found.error is not None
        assert found.error.code is E.COORDINATOR_NOT_AVAILABLE

    tell(tmp_path, story)


def test_offsets_that_are_not_there_are_described_as_unknown(tmp_path: Path) -> None:
    async def story(share: ShareRoom) -> None:
        await share.join("a")  # where the group begins is still open
        asked = [("u", [0, 7]), (TOPIC, [0, 9])]
        unknown, known = await describe(share, GROUP, asked)
        code = E.UNKNOWN_TOPIC_OR_PARTITION
        assert unknown == TopicSeen("u", None, [OffsetSeen(at, error=code) for at in (0, 7)])
        assert known == TopicSeen(TOPIC, share.key(0).topic_id, [OffsetSeen(0), OffsetSeen(9)])

    tell(tmp_path, story)
