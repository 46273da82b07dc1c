"""Classic and newer members in one group: upgrade, life together, downgrade."""

import struct

import pytest

from headrace.config.value_types import Value
from headrace.coordination.groups.classic.states import GroupState
from headrace.coordination.groups.messages import Leaver
from headrace.model.errors import ErrorCode
from headrace.wire.kafka import consumer_protocol
from tests.support.client.consumer_kit import (
    Consumer,
    all_owned,
    cluster,
    group_of,
    grown,
    numbers,
    settle,
    topic_id,
)
from tests.support.coordination.groups_kit import Room, Settings

E = ErrorCode
Protocols = tuple[tuple[str, bytes], ...]


def subscription(*topics: str, owned: tuple[int, ...] = ()) -> bytes:
    """What a classic consumer says of itself (version 1), owning partitions of `t`."""

    def text(one: str) -> bytes:
        return struct.pack(">h", len(one)) + one.encode()

    data = struct.pack(">hi", 1, len(topics)) + b"".join(map(text, topics)) + struct.pack(">i", -1)
    if not owned:
        return data + struct.pack(">i", 0)
    return (
        data
        + struct.pack(">i", 1)
        + text("t")
        + struct.pack(f">i{len(owned)}i", len(owned), *owned)
    )


def given(*parts: int) -> bytes:
    return consumer_protocol.assignment(1, {"t": parts} if parts else {})


def parts_of(assignment: bytes) -> set[int]:
    return {one for _, parts in consumer_protocol.read_assignment(assignment) for one in parts}


class Classic:
    """A classic consumer inside a group that may be of either kind."""

    def __init__(self, room: Room, member_id: str = "", instance: str | None = None) -> None:
        self.room = room
        self.member_id = member_id
        self.instance = instance
        self.generation = -1
        self.parts: set[int] = set()

    @property
    def protocols(self) -> Protocols:
        return (("range", subscription("t", owned=tuple(sorted(self.parts)))),)

    def join(self) -> ErrorCode:
        (answer,) = self.room.join(
            self.member_id,
            protocols=self.protocols,
            instance=self.instance,
            session_ms=60_000,
            rebalance_ms=20_000,
        )
        if answer.error is E.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            return self.join()
        if answer.error is E.NONE:
            self.member_id, self.generation = answer.member_id, answer.generation
        return answer.error

    def sync(self) -> ErrorCode:
        (answer,) = self.room.sync(self.member_id, self.generation, instance=self.instance)
        if answer.error is E.NONE:
            self.parts = parts_of(answer.assignment)
        return answer.error

    def beat(self) -> ErrorCode:
        return self.room.beat(self.member_id, self.generation, instance=self.instance)

    def follow(self) -> None:
        """Do as a consumer does: join and sync whenever it is told to."""
        while self.beat() is not E.NONE:
            assert self.join() is E.NONE
            if self.sync() is not E.NONE:
                return


def room(**settings: Value) -> Room:
    return Room(Settings(**settings), image=cluster({"t": 4}))


def classic_group(place: Room, members: int = 2) -> list[Classic]:
    """A stable classic group whose members share the topic."""
    joining = [
        place.new_member(protocols=(("range", subscription("t")),), session_ms=20_000)
        for _ in range(members)
    ]
    place.clock.advance()
    answers = {name: got[0] for name, got in joining}
    (generation,) = {one.generation for one in answers.values()}
    leader = next(iter(answers.values())).leader
    share = 4 // members
    plan = {name: given(*range(at * share, (at + 1) * share)) for at, name in enumerate(answers)}
    consumers = []
    place.sync(leader, generation, plan)
    for name in answers:
        one = Classic(place, name)
        one.generation = generation
        assert one.sync() is E.NONE
        consumers.append(one)
    return consumers


def together(newer: list[Consumer], classic: list[Classic], rounds: int = 12) -> None:
    """Let all of them heartbeat, and do as they are told."""
    for _ in range(rounds):
        for one in newer:
            one.beat()
        for other in classic:
            other.follow()
        owned = [part for one in newer for part in numbers(one)]
        owned += [part for other in classic for part in other.parts]
        assert len(owned) == len(set(owned)), "two own the same partition"
        newer[0].room.clock.advance(0.01) if newer else classic[0].room.clock.advance(0.01)


def test_a_newer_member_turns_a_classic_group_into_one_of_its_kind() -> None:
    place = room()
    old = classic_group(place)
    place.commit(old[0].member_id, old[0].generation)
    newcomer = Consumer(place, "new")
    assert newcomer.beat().error is E.NONE
    group = group_of(place)
    assert set(group.members) == {one.member_id for one in old} | {"new"}
    assert "g" not in place.groups.shard("g").groups
    assert (b"\0\2\0\1g", None) in place.partition.pairs(), "a Kafka would find both"
    assert place.committed() == 7
    assert old[0].beat() is E.REBALANCE_IN_PROGRESS
    together([newcomer], old)
    assert sorted((newcomer.count, *(len(one.parts) for one in old))) == [1, 1, 2]
    assert group.state.value == "Stable"


def test_after_a_kill_an_upgraded_group_is_still_one() -> None:
    place = room()
    old = classic_group(place)
    newcomer = Consumer(place, "new")
    newcomer.beat()
    later = place.restart()
    newcomer.room = later
    for one in old:
        one.room = later
    together([newcomer], old)
    assert sum(len(one.parts) for one in old) + newcomer.count == 4


def test_the_last_newer_member_that_leaves_turns_the_group_back() -> None:
    place = room()
    old = classic_group(place)
    newcomer = Consumer(place, "new")
    newcomer.beat()
    together([newcomer], old)
    newcomer.leave()
    shard = place.groups.shard("g")
    assert "g" not in shard.modern
    group = place.group()
    assert group.state is GroupState.PREPARING_REBALANCE
    assert list(group.members) == [one.member_id for one in old]
    again = place.restart()
    assert list(again.group().members) == [one.member_id for one in old]
    assert not again.groups.shard("g").modern
    generation = place.rejoined([one.member_id for one in old])
    assert generation > old[0].generation


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_no_group_is_upgraded_against_the_policy(policy: str) -> None:
    place = room(group_consumer_migration_policy=policy)
    old = classic_group(place)
    assert Consumer(place, "new").beat().error is E.GROUP_ID_NOT_FOUND
    assert old[0].beat() is E.NONE


def test_no_group_is_downgraded_against_the_policy() -> None:
    place = room(group_consumer_migration_policy="upgrade")
    old = classic_group(place)
    newcomer = Consumer(place, "new")
    newcomer.beat()
    newcomer.leave()
    assert "g" in place.groups.shard("g").modern
    together([], old)
    assert sum(len(one.parts) for one in old) == 4


def test_a_group_of_no_consumers_is_not_upgraded() -> None:
    place = room()
    place.stable(kind="connect")
    assert Consumer(place, "new").beat().error is E.GROUP_ID_NOT_FOUND


def test_members_whose_bytes_are_no_subscription_stay_a_classic_group() -> None:
    place = room()
    members, generation = place.stable(2)
    assert Consumer(place, "new").beat().error is E.GROUP_ID_NOT_FOUND
    assert place.beat(members[0], generation) is E.NONE


def test_an_empty_classic_group_gives_way_and_keeps_its_offsets() -> None:
    place = room()
    place.commit()
    one = Consumer(place, "a")
    one.beat()
    shard = place.groups.shard("g")
    assert "g" not in shard.groups
    assert place.committed() == 7
    again = place.restart().groups.shard("g")
    assert "g" in again.modern
    assert "g" not in again.groups


def test_an_empty_consumer_group_gives_way_to_classic_members() -> None:
    place = room()
    one = Consumer(place, "a")
    one.beat()
    one.leave()
    old = Classic(place)
    place.new_member(protocols=old.protocols)
    shard = place.groups.shard("g")
    assert "g" not in shard.modern
    assert "g" in shard.groups


def test_who_waits_for_a_classic_generation_is_told_to_join_the_newer_group() -> None:
    place = room(group_initial_rebalance_delay_ms=3_000)
    _, waiting = place.new_member(protocols=(("range", subscription("t")),))
    newcomer = Consumer(place, "new")
    newcomer.beat()
    assert waiting[0].error is E.REBALANCE_IN_PROGRESS


def test_a_classic_member_joins_and_leaves_a_newer_group() -> None:
    place = room()
    newer = Consumer(place, "new")
    newer.beat()
    old = Classic(place)
    assert old.join() is E.NONE
    assert old.sync() is E.NONE
    assert old.parts == set(), "the other one has not given anything up yet"
    together([newer], [old])
    assert (newer.count, len(old.parts)) == (2, 2)
    assert place.groups.leave("g", [Leaver(old.member_id)])[0].error is E.NONE
    settle(newer)
    assert newer.count == 4
    assert old.beat() is E.UNKNOWN_MEMBER_ID


def test_a_classic_member_commits_with_its_generation() -> None:
    place = room()
    newer, old = Consumer(place, "new"), Classic(place)
    newer.beat()
    old.join()
    assert place.commit(old.member_id, old.generation, version=8) == [E.NONE]
    assert place.commit(old.member_id, old.generation + 1, version=8) == [E.ILLEGAL_GENERATION]


def test_a_classic_member_that_does_not_sync_or_join_again_is_out() -> None:
    place = room()
    newer = Consumer(place, "new")
    newer.beat()
    old = Classic(place)
    old.join()
    for _ in range(5):
        place.clock.advance(5)
        newer.beat()
    assert old.beat() is E.UNKNOWN_MEMBER_ID, "it never asked for its assignment"
    again = Classic(place)
    again.join()
    again.sync()
    together([newer], [again])
    newer.beat(topics=frozenset({"t", "x"}))
    for _ in range(5):
        assert newer.beat().error is E.NONE
        again.beat()
        place.clock.advance(5)
    assert again.beat() is E.UNKNOWN_MEMBER_ID, "it was told to join and did not"


def test_a_static_member_goes_over_to_the_newer_protocol_in_its_place() -> None:
    place = room()
    newer = Consumer(place, "new")
    newer.beat()
    old = Classic(place, instance="i")
    assert old.join() is E.NONE
    assert old.sync() is E.NONE
    together([newer], [old])
    had = old.parts
    again = Consumer(place, "over", instance="i")
    assert again.beat().error is E.NONE
    settle(newer, again)
    assert numbers(again) == had
    assert len(all_owned(newer, again)) == 4
    assert old.beat() is E.FENCED_INSTANCE_ID


def test_a_classic_member_follows_a_topic_that_grows() -> None:
    place = room()
    newer, old = Consumer(place, "new"), Classic(place)
    newer.beat()
    old.join()
    old.sync()
    together([newer], [old])
    grown(place, {"t": 6})
    together([newer], [old])
    assert (newer.count, len(old.parts)) == (3, 3)
    assert numbers(newer) | old.parts == set(range(6))
    assert topic_id("t") in newer.owned


def test_an_administrator_puts_members_of_the_newer_protocol_out_by_instance_and_by_id() -> None:
    place = room()
    one, two = Consumer(place, "a", instance="i"), Consumer(place, "b")
    settle(one, two)
    wanted = [Leaver("", "i"), Leaver("b"), Leaver("", "nobody"), Leaver("who")]
    left = place.groups.leave("g", wanted)
    assert [(one.member_id, one.instance_id) for one in left] == [
        ("", "i"),
        ("b", None),
        ("", "nobody"),
        ("who", None),
    ], "each is answered for by the words of the request"
    codes = [E.NONE, E.NONE, E.UNKNOWN_MEMBER_ID, E.UNKNOWN_MEMBER_ID]
    assert [one.error for one in left] == codes
    assert not group_of(place).members


def old_beside_newer(place: Room) -> tuple[Consumer, Classic]:
    """A member of each protocol, settled; the classic one's session is 60 s."""
    newer, old = Consumer(place, "new"), Classic(place)
    newer.beat()
    old.join()
    old.sync()
    together([newer], [old])
    return newer, old


def test_a_classic_members_own_session_counts_from_whatever_it_asks() -> None:
    for ask in ("beat", "sync", "join"):
        place = room()
        newer, old = old_beside_newer(place)
        for wait in (30, 20):
            place.clock.advance(wait)
            newer.beat()
        assert getattr(old, ask)() is E.NONE
        old.sync()
        for wait in (30, 25):
            place.clock.advance(wait)
            newer.beat()
        assert old.member_id in group_of(place).members, ask
        place.clock.advance(6)
        assert old.member_id not in group_of(place).members, ask


def test_a_classic_member_that_joined_and_synced_again_is_timed_no_longer() -> None:
    place = room()
    newer, old = old_beside_newer(place)
    newer.beat(topics=frozenset({"t", "x"}))
    assert old.beat() is E.REBALANCE_IN_PROGRESS
    together([newer], [old])
    for _ in range(6):
        place.clock.advance(5)
        newer.beat()
        assert old.beat() is E.NONE, "what it was told to do is done"


def test_a_classic_member_told_by_its_sync_to_join_again_and_silent_is_out() -> None:
    place = room()
    newer, old = old_beside_newer(place)
    newer.beat(topics=frozenset({"t", "x"}))
    assert old.sync() is E.REBALANCE_IN_PROGRESS
    for _ in range(5):
        place.clock.advance(5)
        newer.beat()
    assert old.member_id not in group_of(place).members
