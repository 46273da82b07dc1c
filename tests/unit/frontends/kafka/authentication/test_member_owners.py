"""Handles are their owners': who names another's member or fetch session is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.cluster.topics.creation import NewTopic
from headrace.frontends.kafka.authentication.authorisation import DELETE_GROUP, DESCRIBE_TOPIC
from headrace.frontends.kafka.connection.dispatch import KafkaSession
from headrace.model.errors import ErrorCode
from headrace.security import handle_owners
from headrace.security.handle_owners import HandleOwners
from headrace.testing.disk import SimDisk
from headrace.wire.kafka.api import ApiKey
from tests.support.processes.broker import Room, play, room
from tests.support.security.authorisation import Rules, call, errors, open_session
from tests.support.security.authorisation_values import ALICE, BOB, FEW, SECOND

UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
MEMBER = "AAAAAAAAAAAAAAAAAAAAAQ"


def told(tmp_path: Path, story: Callable[[Room, KafkaSession, KafkaSession], Any]) -> None:
    """Run a story with an authorizer that refuses nothing, and alice's and bob's connections."""

    async def run() -> None:
        async with room(tmp_path, SimDisk(), **FEW) as here:
            await here.controller.create_topics([NewTopic("t", 1, 1), NewTopic("u", 1, 1)])
            here.write("t")
            here.broker.authorizer = Rules()
            dispatcher, alice = open_session(here, ALICE)
            _, bob = open_session(here, BOB, dispatcher)
            find = {"key_type": 0, "coordinator_keys": ["g"]}
            await call(here, alice, ApiKey.FIND_COORDINATOR, 6, find)
            await story(here, alice, bob)
            await dispatcher.stop()

    play(run())


def code(answer: Any) -> ErrorCode:
    """The answer's own error."""
    return ErrorCode(int(answer.error_code))


def joining(member_id: str = "") -> dict[str, Any]:
    """A JoinGroup."""
    protocol = {"name": "range", "metadata": b"\0\0\0\0\0\0\xff\xff\xff\xff"}
    return {
        "group_id": "g", "member_id": member_id, "session_timeout": 30 * SECOND,
        "rebalance_timeout": 30 * SECOND, "protocol_type": "consumer", "protocols": [protocol],
    }  # fmt: skip


def committing(member_id: str, generation: int) -> dict[str, Any]:
    """An OffsetCommit."""
    part = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1}
    return {
        "group_id": "g", "generation_id_or_member_epoch": generation, "member_id": member_id,
        "topics": [{"name": "t", "partitions": [part]}],
    }  # fmt: skip


def test_a_classic_member_is_spoken_for_by_nobody_else(tmp_path: Path) -> None:
    async def story(here: Room, alice: KafkaSession, bob: KafkaSession) -> None:
        first = await call(here, alice, ApiKey.JOIN_GROUP, 7, joining())
        assert code(first) is ErrorCode.MEMBER_ID_REQUIRED
        stolen = await call(here, bob, ApiKey.JOIN_GROUP, 7, joining(first.member_id))
        assert code(stolen) is UNKNOWN, "not even before its first step"
        joined = await call(here, alice, ApiKey.JOIN_GROUP, 7, joining(first.member_id))
        member, generation = joined.member_id, joined.generation_id
        said = {"group_id": "g", "member_id": member, "generation_id": generation}
        synced = {**said, "protocol_type": "consumer", "protocol_name": "range", "assignments": [
            {"member_id": member, "assignment": b""}]}  # fmt: skip
        leaving = {"group_id": "g", "members": [{"member_id": member}]}
        assert code(await call(here, bob, ApiKey.SYNC_GROUP, 5, synced)) is UNKNOWN
        assert code(await call(here, alice, ApiKey.SYNC_GROUP, 5, synced)) is ErrorCode.NONE
        assert code(await call(here, bob, ApiKey.HEARTBEAT, 4, said)) is UNKNOWN
        assert code(await call(here, alice, ApiKey.HEARTBEAT, 4, said)) is ErrorCode.NONE
        commit = committing(member, generation)
        path = "topics.partitions.error_code"
        refused = await call(here, bob, ApiKey.OFFSET_COMMIT, 9, commit)
        assert errors(refused) == {(path, UNKNOWN)}
        assert not errors(await call(here, alice, ApiKey.OFFSET_COMMIT, 9, commit))
        here.broker.authorizer = Rules(DELETE_GROUP, to=BOB)
        left = await call(here, bob, ApiKey.LEAVE_GROUP, 5, leaving)
        assert errors(left) == {("members.error_code", UNKNOWN)}
        here.broker.authorizer = Rules()
        left = await call(here, bob, ApiKey.LEAVE_GROUP, 5, leaving)
        assert not errors(left), "who may delete the group may take its members out"
        assert len(here.coordinators.member_owners) == 0

    told(tmp_path, story)


def beat(kind: str, epoch: int, **more: Any) -> dict[str, Any]:
    """A heartbeat of the newer protocols."""
    values: dict[str, Any] = {"group_id": kind, "member_id": MEMBER, "member_epoch": epoch, **more}
    if kind == "c" and epoch == 0:
        values |= {"rebalance_timeout": SECOND, "topic_partitions": []}
    return values


@pytest.mark.parametrize(
    ("kind", "key"),
    [("c", ApiKey.CONSUMER_GROUP_HEARTBEAT), ("s", ApiKey.SHARE_GROUP_HEARTBEAT)],
)
def test_a_member_of_the_newer_groups_is_spoken_for_by_nobody_else(
    tmp_path: Path, kind: str, key: ApiKey
) -> None:
    async def story(here: Room, alice: KafkaSession, bob: KafkaSession) -> None:
        join = beat(kind, 0, subscribed_topic_names=["t"])
        joined = await call(here, alice, key, 1, join)
        assert code(joined) is ErrorCode.NONE
        assert code(await call(here, bob, key, 1, join)) is UNKNOWN
        assert code(await call(here, bob, key, 1, beat(kind, -1))) is UNKNOWN
        if kind == "s":
            fetch = {"group_id": "s", "member_id": MEMBER, "share_session_epoch": 0}
            for session, expected in ((bob, ErrorCode.SHARE_SESSION_NOT_FOUND), (alice, 0)):
                answer = await call(here, session, ApiKey.SHARE_FETCH, 1, fetch)
                assert int(answer.error_code) == int(expected)
        stays = beat(kind, joined.member_epoch)
        assert code(await call(here, alice, key, 1, stays)) is ErrorCode.NONE
        assert code(await call(here, alice, key, 1, beat(kind, -1))) is ErrorCode.NONE
        assert code(await call(here, bob, key, 1, join)) is ErrorCode.NONE, "it is free again"

    told(tmp_path, story)


def fetching(session_id: int, epoch: int) -> dict[str, Any]:
    """A Fetch."""
    part = {"partition": 0, "current_leader_epoch": -1, "partition_max_bytes": 1000}
    return {
        "replica_id": -1, "max_bytes": 1000, "min_bytes": 0, "session_id": session_id,
        "session_epoch": epoch,
        "topics": [{"topic": "t", "partitions": [part]}] if epoch == 0 else [],
    }  # fmt: skip


def test_a_fetch_session_is_gone_on_with_and_ended_by_nobody_else(tmp_path: Path) -> None:
    async def story(here: Room, alice: KafkaSession, bob: KafkaSession) -> None:
        opened = await call(here, alice, ApiKey.FETCH, 12, fetching(0, 0))
        stolen = await call(here, bob, ApiKey.FETCH, 12, fetching(opened.session_id, 1))
        assert code(stolen) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        for epoch in (0, -1):
            await call(here, bob, ApiKey.FETCH, 12, fetching(opened.session_id, epoch))
        goes_on = await call(here, alice, ApiKey.FETCH, 12, fetching(opened.session_id, 1))
        assert code(goes_on) is ErrorCode.NONE

    told(tmp_path, story)


def topics_of(answer: Any, here: Room) -> set[str]:
    """The names of what is assigned."""
    by_id = here.broker.image.topics_by_id
    return {by_id[one.topic_id.bytes].name for one in answer.assignment.topic_partitions}


class SeesOnly(Rules):
    """Lets some topics be described, and nothing be refused else."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.names = set(names)

    def allows(self, identity: Any, operation: Any, resource: Any) -> bool:
        """Answer by the names."""
        hidden = operation is DESCRIBE_TOPIC.operation and resource.kind is DESCRIBE_TOPIC.kind
        return not hidden or resource.name in self.names


def test_a_regular_expression_stands_for_what_its_member_may_see_now(tmp_path: Path) -> None:
    async def story(here: Room, alice: KafkaSession, bob: KafkaSession) -> None:
        rules = here.broker.authorizer = SeesOnly("t")
        clock: Any = here.server.clock
        key = ApiKey.CONSUMER_GROUP_HEARTBEAT
        join = beat("c", 0, subscribed_topic_regex=".*", subscribed_topic_names=None)
        answer = await call(here, alice, key, 1, join)
        assert topics_of(answer, here) == {"t"}
        for names in ({"t", "u"}, {"u"}):
            rules.names = names
            rules.version += 1
            seen = {"t"} if len(names) == 2 else {"t", "u"}
            for _ in range(20):
                clock.advance(1.5)
                full = beat(
                    "c", answer.member_epoch, rebalance_timeout=SECOND,
                    subscribed_topic_regex=".*", subscribed_topic_names=None,
                    topic_partitions=[] if answer.assignment is None else [
                        {"topic_id": one.topic_id, "partitions": list(one.partitions)}
                        for one in answer.assignment.topic_partitions],
                )  # fmt: skip
                answer = await call(here, alice, key, 1, full)
                seen = topics_of(answer, here) if answer.assignment is not None else seen
                if seen == names:
                    break
            assert seen == names

    told(tmp_path, story)


def test_so_many_owners_are_known_and_the_longest_unused_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handle_owners, "HANDLES_MAX", 2)
    owners = HandleOwners()
    for member in ("a", "b", "a", "c"):
        owners.learn(("g", member), ALICE.principal)
    bob = BOB.principal
    assert [owners.is_anothers(("g", one), bob) for one in "abc"] == [True, False, True]
    assert len(owners) == 2
