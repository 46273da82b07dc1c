"""A classic group that became a consumer group has no timers, and nobody hangs in it."""

import struct
from typing import Any

from headrace.model.errors import ErrorCode
from headrace.wire.kafka import consumer_protocol
from tests.support.client.consumer_kit import Consumer, cluster, group_of
from tests.support.coordination.groups_kit import Room, Settings

E = ErrorCode
TO_T = struct.pack(">hih", 1, 1, 1) + b"t" + struct.pack(">ii", -1, 0)
ASKED: dict[str, Any] = {
    "protocols": (("range", TO_T),),
    "session_ms": 600_000,
    "rebalance_ms": 60_000,
}


def classic_group() -> tuple[Room, list[str], int]:
    """A Stable classic group of two that share topic t."""
    place = Room(Settings(), image=cluster({"t": 4}))
    joining = [place.new_member(**ASKED) for _ in range(2)]
    place.clock.advance()
    (leader, _), (other, _) = joining
    shares = (consumer_protocol.assignment(1, {"t": part}) for part in ([0, 1], [2, 3]))
    place.sync(leader, 1, dict(zip((leader, other), shares, strict=True)))
    place.sync(other, 1)
    return place, [leader, other], 1


def test_who_waits_for_the_next_generation_is_told_to_join_the_new_group() -> None:
    place, (leader, _), _ = classic_group()
    waiting = place.join(leader, **ASKED)
    newcomer = Consumer(place, "new")
    assert newcomer.beat().error is E.NONE
    assert [(one.error, one.member_id) for one in waiting] == [(E.REBALANCE_IN_PROGRESS, leader)]
    for _ in range(7):
        place.clock.advance(10)
        newcomer.beat()
    assert "new" in group_of(place).members


def test_who_waits_for_an_assignment_is_told_to_join_the_new_group() -> None:
    place, members, generation = classic_group()
    for member in members:
        place.join(member, **ASKED)
    waiting = place.sync(members[1], generation + 1)
    newcomer = Consumer(place, "new")
    assert newcomer.beat().error is E.NONE
    assert [one.error for one in waiting] == [E.REBALANCE_IN_PROGRESS]
    for _ in range(7):
        place.clock.advance(10)
        newcomer.beat()
    assert "new" in group_of(place).members


def test_an_id_the_classic_group_gave_out_ends_nothing_in_the_new_one() -> None:
    place, members, _ = classic_group()
    (given,) = place.join(**(ASKED | {"session_ms": 10_000}))
    assert given.error is E.MEMBER_ID_REQUIRED
    place.join(members[0], **ASKED)
    newcomer = Consumer(place, "new")
    newcomer.beat()
    place.clock.advance(11)
    assert set(group_of(place).members) == {*members, "new"}
