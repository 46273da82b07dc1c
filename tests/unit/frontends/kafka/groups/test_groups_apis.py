"""The group APIs on the wire: every version of each is decoded, handled and answered."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from headrace.broker.metadata_image import (
    ImageDelta,
)
from headrace.frontends.kafka.groups import (
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    sync_group,
)
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import OFFSETS_TOPIC
from headrace.wire.kafka.hot import heartbeat as heartbeat_codec
from tests.support.coordination.groups_wire import Wire, topic, versions
from tests.support.net.served import served


@pytest.mark.parametrize("version", versions(served(join_group)))
def test_join_sync_and_leave_in_every_version(version: int) -> None:
    wire = Wire()
    protocol = wire.nested(
        served(join_group), version, "JoinGroupRequestProtocol", name="range", metadata=b"m"
    )
    values: dict[str, Any] = {
        "group_id": "g",
        "session_timeout": timedelta(seconds=10),
        "rebalance_timeout": timedelta(seconds=20),
        "member_id": "",
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": (protocol,),
        "reason": "for the test",
    }
    joined = wire.ask(served(join_group), version, **values)
    if version >= 4:
        assert joined.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert joined.protocol_name == (None if version >= 7 else "")
        joined = wire.ask(served(join_group), version, **{**values, "member_id": joined.member_id})
    assert joined.error_code == ErrorCode.NONE
    assert (joined.generation_id, joined.leader) == (1, joined.member_id)
    assert [one.metadata for one in joined.members] == [b"m"]
    synced(wire, min(version, served(sync_group).max_version), joined.member_id)
    left(wire, min(version, served(leave_group).max_version), joined.member_id)


def synced(wire: Wire, version: int, member: str) -> None:
    api = served(sync_group)
    assignment = wire.nested(
        api, version, "SyncGroupRequestAssignment", member_id=member, assignment=b"all"
    )
    answer = wire.ask(
        api, version, group_id="g", generation_id=1, member_id=member, group_instance_id=None,
        protocol_type="consumer", protocol_name="range", assignments=(assignment,),
    )  # fmt: skip
    assert (answer.error_code, answer.assignment) == (ErrorCode.NONE, b"all")


def left(wire: Wire, version: int, member: str) -> None:
    api = served(leave_group)
    if version < 3:
        wrong = wire.ask(api, version, group_id="g", member_id="who")
        assert wrong.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        answer = wire.ask(api, version, group_id="g", member_id=member)
    else:
        members = tuple(
            wire.nested(
                api, version, "MemberIdentity", member_id=one, group_instance_id=None, reason="bye"
            )
            for one in ("who", member)
        )
        answer = wire.ask(api, version, group_id="g", members=members)
        codes = [one.error_code for one in answer.members]
        assert codes == [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE]
    assert answer.error_code == ErrorCode.NONE
    empty = wire.ask(api, version, group_id="", member_id="m", members=())
    assert empty.error_code == ErrorCode.INVALID_GROUP_ID


def test_a_sync_that_names_no_protocol_is_refused_since_it_must() -> None:
    answer = Wire().ask(
        served(sync_group), 5, group_id="g", generation_id=1, member_id="m", group_instance_id=None,
        protocol_type=None, protocol_name=None, assignments=(),
    )  # fmt: skip
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("version", versions(served(heartbeat)))
def test_heartbeat_in_every_version(version: int) -> None:
    wire = Wire()
    (member,), generation = wire.room.stable()
    for name, expected in ((member, ErrorCode.NONE), ("who", ErrorCode.UNKNOWN_MEMBER_ID)):
        request = heartbeat_codec.HeartbeatRequest("g", generation, name)
        body = memoryview(heartbeat_codec.encode_request(version, request))
        answer = heartbeat.handle(wire.context(served(heartbeat), version), body)
        assert heartbeat_codec.decode_response(version, memoryview(answer)).error_code == expected


@pytest.mark.parametrize("version", versions(served(describe_groups)))
def test_describe_groups_in_every_version(version: int) -> None:
    wire = Wire()
    (member,), _ = wire.room.stable()
    answer = wire.ask(
        served(describe_groups), version, groups=("g", "none"), include_authorized_operations=True
    )
    known, unknown = answer.groups
    assert (known.group_state, known.protocol_type, known.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    (described,) = known.members
    assert (described.member_id, described.client_host) == (member, "/127.0.0.1")
    assert described.member_assignment == member.encode()
    assert unknown.group_state == "Dead"
    expected = ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE
    assert unknown.error_code == expected


@pytest.mark.parametrize("version", versions(served(list_groups)))
def test_list_groups_in_every_version(version: int) -> None:
    wire = Wire()
    wire.room.stable()
    wire.room.commit(group="simple")

    def listed(**asked: tuple[str, ...]) -> list[str]:
        asked = {"states_filter": (), "types_filter": (), **asked}
        return [one.group_id for one in wire.ask(served(list_groups), version, **asked).groups]

    assert listed() == ["g", "simple"]
    if version >= 4:
        assert listed(states_filter=("stable",)) == ["g"]
        assert listed(states_filter=("Empty", "Dead")) == ["simple"]
    if version >= 5:
        assert listed(types_filter=("Classic",)) == ["g", "simple"]
        assert listed(types_filter=("consumer",)) == []


@pytest.mark.parametrize("version", versions(served(delete_groups)))
def test_delete_groups_in_every_version(version: int) -> None:
    wire = Wire()
    wire.room.stable()
    wire.room.commit(group="simple")
    answer = wire.ask(served(delete_groups), version, groups_names=("g", "simple", "none"))
    assert [(one.group_id, one.error_code) for one in answer.results] == [
        ("g", ErrorCode.NON_EMPTY_GROUP),
        ("simple", ErrorCode.NONE),
        ("none", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert wire.ask(served(delete_groups), version, groups_names=()).results == ()


@pytest.mark.parametrize("version", versions(served(find_coordinator)))
def test_find_coordinator_in_every_version(version: int) -> None:
    wire = Wire()

    def find(key_type: int = 0) -> Any:
        answer = wire.ask(
            served(find_coordinator), version, key="g", key_type=key_type, coordinator_keys=("g",)
        )
        return answer if version < 4 else answer.coordinators[0]

    found = find()
    assert (found.error_code, found.node_id, found.host, found.port) == (0, 0, "here", 9092)
    if version >= 1:
        assert find(1).error_code == ErrorCode.NONE
        assert find(2).error_code == ErrorCode.INVALID_REQUEST


def made(wire: Wire) -> Callable[[str], Any]:
    """A controller that makes `__consumer_offsets`."""

    async def ensure(name: str) -> None:
        wire.broker.image.apply(ImageDelta([topic(name, bytes(16), 1)]))

    return ensure


def test_the_first_question_makes_the_topic() -> None:
    wire = Wire()
    wire.broker.image.apply(ImageDelta(removed=[OFFSETS_TOPIC]))
    wire.controller.ensure_internal_topic = made(wire)
    answer = wire.ask(served(find_coordinator), 2, key="g", key_type=0)
    assert (answer.error_code, answer.port) == (0, 9092)


def test_a_topic_that_cannot_be_made_means_no_coordinator_yet() -> None:
    wire = Wire()
    wire.broker.image.apply(ImageDelta(removed=[OFFSETS_TOPIC]))

    async def refuse(name: str) -> None:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)

    wire.controller.ensure_internal_topic = refuse
    answer = wire.ask(served(find_coordinator), 4, key_type=0, coordinator_keys=("g",))
    assert answer.coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
