"""Classic members of a consumer group: who may join it how, and when it is theirs again."""

import struct
from typing import Any

from headrace.coordination.groups.classic.states import GroupState
from headrace.coordination.groups.messages import Leaver
from headrace.model.errors import ErrorCode
from tests.support.client.consumer_kit import Consumer, group_of
from tests.support.coordination.groups_kit import Settings
from tests.unit.coordination.test_migration_timers import ASKED, TO_T, classic_group

E = ErrorCode
OTHER: dict[str, Any] = ASKED | {"protocols": (("other", TO_T),)}
BOTH: dict[str, Any] = ASKED | {"protocols": (("other", TO_T), ("range", TO_T))}


def test_a_classic_member_has_a_protocol_that_all_others_of_its_kind_have() -> None:
    place, (leader, follower), _ = classic_group()
    newcomer = Consumer(place, "new")
    newcomer.beat()
    (answer,) = place.join(leader, **OTHER)
    assert answer.error is E.INCONSISTENT_GROUP_PROTOCOL
    (answer,) = place.join(leader, **BOTH)
    assert answer.error is E.NONE
    (answer,) = place.join(follower, **OTHER)
    assert answer.error is E.NONE
    (answer,) = place.join(leader, **ASKED)
    assert answer.error is E.INCONSISTENT_GROUP_PROTOCOL
    place.groups.leave("g", [Leaver(follower)])
    (answer,) = place.join(leader, **ASKED)
    assert answer.error is E.NONE
    (answer,) = place.join(leader, **(ASKED | {"kind": "connect"}))
    assert answer.error is E.INCONSISTENT_GROUP_PROTOCOL


def test_a_session_out_of_bounds_is_refused_in_a_consumer_group_too() -> None:
    place, (leader, _), _ = classic_group()
    Consumer(place, "new").beat()
    for session_ms, code in (
        (5_999, E.INVALID_SESSION_TIMEOUT),
        (6_000, E.NONE),
        (1_800_000, E.NONE),
        (1_800_001, E.INVALID_SESSION_TIMEOUT),
    ):
        (answer,) = place.join(leader, **(ASKED | {"session_ms": session_ms}))
        assert answer.error is code


def test_the_last_newer_member_back_as_a_classic_one_makes_the_group_classic() -> None:
    place, members, _ = classic_group()
    Consumer(place, "new", instance="i").beat()
    assert "new" in group_of(place).members
    place.join(instance="i", **ASKED)
    group = place.group()
    assert group.state is GroupState.PREPARING_REBALANCE
    assert set(members) < set(group.members)
    assert list(group.static_members) == ["i"]


def test_a_classic_group_as_large_as_a_consumer_group_may_be_is_taken_over_and_no_larger() -> None:
    for limit, code in ((1, E.GROUP_ID_NOT_FOUND), (2, E.GROUP_MAX_SIZE_REACHED), (3, E.NONE)):
        place, _, _ = classic_group()
        place.settings = Settings(group_consumer_max_size=limit)
        assert Consumer(place, "new").beat().error is code
        assert ("g" in place.groups.shard("g").groups) is (code is not E.NONE)


def test_a_group_that_is_classic_again_has_no_record_of_the_newer_kind_left() -> None:
    place, _, _ = classic_group()
    newcomer = Consumer(place, "new")
    newcomer.beat()
    last = dict(place.partition.pairs())
    newer = {key for key, value in last.items() if key and key[1] > 2 and value is not None}
    assert {key[1] for key in newer if key} == {3, 5, 6, 7, 8}
    newcomer.leave()
    last = dict(place.partition.pairs())
    assert [key for key in newer if last[key] is not None] == []


def test_a_classic_member_of_several_protocols_subscribes_as_in_the_first() -> None:
    place, (leader, _), _ = classic_group()
    Consumer(place, "new").beat()
    to_both = struct.pack(">hih", 1, 2, 1) + b"t" + struct.pack(">h", 1) + b"u"
    to_both += struct.pack(">ii", -1, 0)
    protocols = ("range", to_both), ("other", TO_T)
    (answer,) = place.join(leader, **(ASKED | {"protocols": protocols}))
    assert answer.error is E.NONE
    assert group_of(place).members[leader].subscription.topics == {"t", "u"}
