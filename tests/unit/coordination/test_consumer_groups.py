"""Groups of the newer protocol: joining, moving partitions, leaving, being fenced, coming back."""

import pytest

from headrace.coordination.groups.consumer.messages import HeartbeatRequest
from headrace.coordination.groups.consumer.model import ConsumerGroupState, MemberState
from headrace.coordination.groups.messages import OffsetToCommit
from headrace.model.errors import ApiError, ErrorCode
from tests.support.consumer_kit import (
    Consumer,
    all_owned,
    ask,
    cluster,
    group_of,
    grown,
    numbers,
    settle,
    topic_id,
)
from tests.support.groups_kit import Room, Settings

E = ErrorCode
S = ConsumerGroupState


def room(**settings: int) -> Room:
    return Room(Settings(**settings), image=cluster({"t": 4, "other": 3}))


def test_the_first_member_has_everything_with_its_first_heartbeat() -> None:
    one = Consumer(room(), "a")
    answer = one.beat()
    assert (answer.error, answer.epoch) == (E.NONE, 2), "as in Kafka 4.3: a group begins at 1"
    assert numbers(one) == {0, 1, 2, 3}
    assert one.interval_ms == 5_000
    assert group_of(one.room).state is S.STABLE


def test_a_partition_moves_only_when_its_owner_has_given_it_up() -> None:
    place = room()
    one, two = Consumer(place, "a"), Consumer(place, "b")
    one.beat()
    two.beat()
    assert two.count == 0
    assert two.interval_ms == 1_000, "who waits is to ask sooner"
    assert group_of(place).state is S.RECONCILING
    one.slow = True
    one.beat()
    assert group_of(place).members["a"].standing.state is MemberState.UNREVOKED_PARTITIONS
    two.beat()
    assert two.count == 0, "the owner was told, and has not said yet that it obeyed"
    one.obey()
    one.slow = False
    one.beat()
    two.beat()
    assert (one.count, two.count) == (2, 2)
    assert len(all_owned(one, two)) == 4
    assert group_of(place).state is S.STABLE


def test_a_member_that_says_nothing_is_taken_to_have_what_it_had() -> None:
    place = room()
    one, two = Consumer(place, "a"), Consumer(place, "b")
    one.beat()
    two.beat()
    one.tells_owned = False
    for _ in range(3):
        one.beat()
        two.beat()
    assert two.count == 0
    one.tells_owned = True
    settle(one, two)
    assert two.count == 2


def test_only_what_changes_of_a_target_is_written() -> None:
    place = room()
    one, two, three = (Consumer(place, name) for name in "abc")
    settle(one, two)
    before = len(place.partition.pairs())
    three.beat()
    written = [key for key, _ in place.partition.pairs()[before:] if key and key[1] == 7]
    assert len(written) == 2, "one of the others keeps both of its partitions"


def test_who_leaves_leaves_its_partitions_to_the_others() -> None:
    place = room()
    one, two = Consumer(place, "a"), Consumer(place, "b")
    settle(one, two)
    assert one.leave().epoch == -1
    settle(two)
    assert numbers(two) == {0, 1, 2, 3}
    two.leave()
    assert group_of(place).state is S.EMPTY


def test_who_is_not_heard_of_is_out_when_its_session_ends() -> None:
    place = room()
    one, two = Consumer(place, "a"), Consumer(place, "b")
    settle(one, two)
    place.clock.advance(40)
    two.beat()
    place.clock.advance(6)
    settle(two)
    assert numbers(two) == {0, 1, 2, 3}
    assert one.beat().error is E.UNKNOWN_MEMBER_ID
    settle(one, two)
    assert (one.count, two.count) == (2, 2)


def test_who_gives_nothing_up_is_out_when_its_rebalance_timeout_ends() -> None:
    place = room()
    one, two = Consumer(place, "a", rebalance_ms=10_000), Consumer(place, "b")
    one.beat()
    two.beat()
    one.slow = True
    for _ in range(4):
        one.beat()
        two.beat()
        place.clock.advance(3)
    assert one.beat().error is E.UNKNOWN_MEMBER_ID
    settle(two)
    assert numbers(two) == {0, 1, 2, 3}


def test_a_member_with_an_epoch_of_its_own_is_fenced() -> None:
    one = Consumer(room(), "a")
    one.beat()
    assert one.beat(epoch=7).error is E.FENCED_MEMBER_EPOCH
    one.beat()
    assert numbers(one) == {0, 1, 2, 3}


def test_a_member_whose_answer_was_lost_goes_on_with_its_last_epoch() -> None:
    place = room()
    one, two = Consumer(place, "a"), Consumer(place, "b")
    settle(one, two)
    before = one.epoch
    two.leave()
    one.beat()
    assert one.epoch == before + 1
    lost = ask(
        place,
        HeartbeatRequest("g", "a", before, owned={topic_id("t"): frozenset({0, 1})}),
    )
    assert lost[0].error is E.NONE
    beyond = ask(place, HeartbeatRequest("g", "a", before, owned={topic_id("t"): frozenset({9})}))
    assert beyond[0].error is E.FENCED_MEMBER_EPOCH


def test_a_silent_heartbeat_answers_without_the_assignment_and_writes_nothing() -> None:
    one = Consumer(room(), "a")
    one.beat()
    written = len(one.room.partition.pairs())
    assert one.beat().assigned is None
    assert len(one.room.partition.pairs()) == written


def test_a_full_heartbeat_is_told_everything() -> None:
    one = Consumer(room(), "a")
    one.beat()
    answer = one.beat(topics=frozenset({"t"}), rebalance_timeout_ms=30_000)
    assert answer.assigned is not None
    assert set(answer.assigned[topic_id("t")]) == {0, 1, 2, 3}


def test_a_changed_subscription_takes_its_topic_away_at_once() -> None:
    one = Consumer(room(), "a", topics=frozenset({"t", "other"}))
    one.beat()
    assert one.count == 7
    one.beat(topics=frozenset({"other"}))
    settle(one)
    assert one.owned == {topic_id("other"): frozenset({0, 1, 2})}


def test_a_topic_that_grows_or_comes_is_shared_out() -> None:
    one = Consumer(room(), "a", topics=frozenset({"t", "new"}))
    one.beat()
    grown(one.room, {"t": 5, "new": 2})
    settle(one)
    assert one.count == 7
    grown(one.room, {"t": 5})
    settle(one)
    assert one.owned == {topic_id("t"): frozenset(range(5))}


def test_many_who_join_together_cost_few_assignments() -> None:
    place = room(group_consumer_assignment_interval_ms=1000)
    members = [Consumer(place, f"m{n}") for n in range(50)]
    for one in members:
        one.beat()
    group = group_of(place)
    assert (group.epoch, group.target_epoch) == (51, 2)
    assert group.state is S.ASSIGNING
    shown = place.groups.describe_consumer("g")
    assert (shown.state, shown.epoch, shown.target_epoch) == ("Assigning", 51, 2)
    place.clock.advance(1)
    assert group.target_epoch == 51
    settle(*members)
    assert len(all_owned(*members)) == 4


def test_churn_costs_an_assignment_a_second_and_settles() -> None:
    place = room(group_consumer_assignment_interval_ms=1000)
    grown(place, {"t": 60})
    members = [Consumer(place, f"m{n}") for n in range(40)]
    for turn in range(10):
        for one in members[turn % 3 :: 3]:
            one.beat()
        for one in members[turn % 4 :: 4]:
            if one.epoch:
                one.leave()
        place.clock.advance(0.5)
    targets = [key for key, _ in place.partition.pairs() if key and key[:2] == b"\0\6"]
    assert len(targets) <= 7
    for _ in range(8):
        for one in members:
            one.beat()
        place.clock.advance(1)
    assert len(all_owned(*members)) == 60
    assert {one.count for one in members} == {1, 2}


def test_a_static_member_that_comes_back_finds_what_it_had() -> None:
    place = room()
    one, two = Consumer(place, "a", instance="i"), Consumer(place, "b")
    settle(one, two)
    had, epoch = numbers(one), group_of(place).epoch
    assert one.leave(-2).epoch == -2
    settle(two)
    assert two.count == 2, "nothing moves while it is away"
    again = Consumer(place, "a2", instance="i")
    again.beat()
    assert numbers(again) == had
    assert group_of(place).epoch == epoch, "and nobody was asked to rebalance"
    assert one.beat(epoch=epoch).error is E.FENCED_INSTANCE_ID


def test_an_instance_id_in_use_is_not_released() -> None:
    place = room()
    Consumer(place, "a", instance="i").beat()
    assert Consumer(place, "b", instance="i").beat().error is E.UNRELEASED_INSTANCE_ID


def test_a_static_member_that_stays_away_loses_its_place() -> None:
    place = room()
    one, two = Consumer(place, "a", instance="i"), Consumer(place, "b")
    settle(one, two)
    one.leave(-2)
    place.clock.advance(30)
    two.beat()
    place.clock.advance(20)
    settle(two)
    assert numbers(two) == {0, 1, 2, 3}


def test_topics_by_expression_come_as_they_are_made() -> None:
    one = Consumer(room(), "a", topics=None, regex="o.*|t")
    one.beat()
    assert one.count == 7
    grown(one.room, {"t": 4, "other": 3, "ours": 1, "xo": 1})
    one.room.clock.advance(2)
    settle(one)
    assert one.count == 8
    one.beat(regex="other")
    settle(one)
    assert one.owned == {topic_id("other"): frozenset({0, 1, 2})}
    assert set(group_of(one.room).regexes) == {"other"}


def test_topics_that_come_and_go_are_matched_after_a_kill_too() -> None:
    place = room()
    one = Consumer(place, "a", topics=None, regex="o.*|t")
    one.beat()
    one.room = place.restart()
    grown(one.room, {"t": 4, "ours": 1, "xo": 1})
    one.room.clock.advance(2)
    settle(one)
    assert one.owned == {topic_id("t"): frozenset(range(4)), topic_id("ours"): frozenset({0})}
    grown(one.room, {"t": 4, "other": 2})
    one.room.clock.advance(2)
    settle(one)
    assert one.owned == {topic_id("t"): frozenset(range(4)), topic_id("other"): frozenset({0, 1})}


def test_a_group_subscribes_by_so_many_expressions_and_no_more() -> None:
    place = room()
    for number in range(100):
        one = Consumer(place, f"m{number}", topics=None, regex=f"t{number}")
        assert one.beat().error is E.NONE
    late = Consumer(place, "late", topics=None, regex="t")
    assert late.beat().error is E.INVALID_REGULAR_EXPRESSION
    assert "late" not in group_of(place).members
    late.regex = "t7"
    assert late.beat().error is E.NONE


@pytest.mark.parametrize("expression", ["(", "(?=a)", "a{1,1000000}", "x" * 5000])
def test_an_expression_that_is_none_is_refused(expression: str) -> None:
    one = Consumer(room(), "a", topics=None, regex=expression)
    answer = one.beat()
    assert answer.error is E.INVALID_REGULAR_EXPRESSION
    assert answer.message is not None
    assert "valid regular expression" in answer.message
    assert "g" not in one.room.groups.shard("g").modern


def test_what_makes_other_engines_run_for_ever_is_matched_in_no_time() -> None:
    place = Room(image=cluster({"a" * 240 + "b": 1}))
    one = Consumer(place, "a", topics=None, regex="(a*)*(a|aa)+$")
    assert one.beat().error is E.NONE
    assert one.count == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"group_id": ""},
        {"member_id": ""},
        {"instance_id": ""},
        {"epoch": -3},
        {"rebalance_timeout_ms": -1},
        {"owned": None},
        {"owned": {topic_id("t"): frozenset({1})}},
        {"topics": None},
    ],
)
def test_a_heartbeat_that_says_too_little_is_refused(wrong: dict[str, object]) -> None:
    answer = Consumer(room(), "a").beat(**wrong)
    assert answer.error in (E.INVALID_REQUEST, E.INVALID_GROUP_ID)


def test_an_assignor_nobody_has_is_refused() -> None:
    answer = Consumer(room(), "a", assignor="mine").beat()
    assert answer.error is E.UNSUPPORTED_ASSIGNOR


def test_the_assignor_most_members_ask_for_is_used() -> None:
    place = Room(image=cluster({"t": 3, "other": 3}))
    both = frozenset({"t", "other"})
    one = Consumer(place, "a", topics=both, assignor="range")
    two = Consumer(place, "b", topics=both, assignor="range")
    settle(one, two)
    assert numbers(one, "t") == numbers(one, "other") == {0, 1}
    assert numbers(two, "t") == numbers(two, "other") == {2}


def test_a_group_that_is_not_there_cannot_be_in() -> None:
    assert Consumer(room(), "a", epoch=3).beat().error is E.GROUP_ID_NOT_FOUND


def test_a_full_group_lets_nobody_in() -> None:
    place = room(group_consumer_max_size=1)
    Consumer(place, "a").beat()
    assert Consumer(place, "b").beat().error is E.GROUP_MAX_SIZE_REACHED


def test_one_groups_own_settings_win() -> None:
    place = room()
    place.group_settings["g"] = {
        "consumer.session.timeout.ms": "50000",
        "consumer.heartbeat.interval.ms": "7000",
    }
    one = Consumer(place, "a")
    one.beat()
    assert one.interval_ms == 7_000
    place.clock.advance(49)
    assert one.beat().error is E.NONE
    place.clock.advance(51)
    assert one.beat().error is E.UNKNOWN_MEMBER_ID


# --- the log -----------------------------------------------------------------------------------


def test_an_answer_waits_for_the_log() -> None:
    place = room()
    place.partition.hold = True
    one = Consumer(place, "a")
    one.send()
    assert not one.waiting
    place.partition.flush()
    assert one.waiting[0].error is E.NONE


def test_what_the_log_refuses_has_not_happened() -> None:
    place = room()
    one, two = Consumer(place, "a"), Consumer(place, "b")
    one.beat()
    place.partition.refusal = E.NOT_ENOUGH_REPLICAS
    assert two.beat().error is E.COORDINATOR_NOT_AVAILABLE
    group = group_of(place)
    assert (list(group.members), group.epoch, group.target_epoch) == (["a"], 2, 2)
    place.partition.refusal = None
    settle(one, two)
    assert (one.count, two.count) == (2, 2)


def test_a_group_the_log_refuses_is_not_there() -> None:
    place = room()
    place.partition.refusal = E.NOT_ENOUGH_REPLICAS
    Consumer(place, "a").beat()
    assert not place.groups.shard("g").modern


def test_after_a_kill_members_go_on_where_they_were() -> None:
    place = room()
    one = Consumer(place, "a", topics=None, regex="t|other", instance="i")
    two = Consumer(place, "b", topics=frozenset({"t"}))
    settle(one, two)
    later = place.restart()
    for each in (one, two):
        each.room = later
        had = dict(each.owned)
        assert each.beat().error is E.NONE
        assert each.owned == had
    before, after = group_of(place), group_of(later)
    assert after.epoch == before.epoch
    assert after.members == before.members
    assert after.target == before.target
    assert after.regexes == before.regexes


def test_after_a_kill_who_is_not_heard_of_is_out() -> None:
    place = room()
    one, two = Consumer(place, "a"), Consumer(place, "b")
    settle(one, two)
    later = place.restart()
    one.room = later
    later.clock.advance(40)
    one.beat()
    later.clock.advance(6)
    settle(one)
    assert numbers(one) == {0, 1, 2, 3}


# --- offsets -----------------------------------------------------------------------------------


def test_offsets_are_committed_with_the_members_epoch() -> None:
    place = room()
    one = Consumer(place, "a")
    one.beat()
    assert place.commit("a", one.epoch, version=9) == [E.NONE]
    assert place.committed() == 7
    assert place.commit("a", one.epoch + 1, version=9) == [E.STALE_MEMBER_EPOCH]
    assert place.commit("x", one.epoch, version=9) == [E.UNKNOWN_MEMBER_ID]
    assert place.commit("a", one.epoch, version=8) == [E.UNSUPPORTED_VERSION]
    assert place.commit(version=9) == [E.UNKNOWN_MEMBER_ID]


def test_an_older_epoch_commits_what_the_member_has_had_since_then() -> None:
    place = room()
    one, two = Consumer(place, "a"), Consumer(place, "b")
    one.beat()
    settle(one, two)
    assert one.epoch == 3
    kept = [OffsetToCommit("t", part, 5) for part in numbers(one)]
    lost = [OffsetToCommit("t", part, 5) for part in numbers(two)]
    assert place.commit("a", 2, kept, version=9) == [E.NONE]
    assert place.commit("a", 2, lost, version=9) == [E.STALE_MEMBER_EPOCH]


def test_an_older_epoch_does_not_commit_what_came_back_since() -> None:
    place = room()
    one, two = Consumer(place, "a"), Consumer(place, "b")
    one.beat()
    settle(one, two)
    kept, lost = numbers(one), numbers(two)
    two.leave()
    settle(one)
    assert numbers(one) == kept | lost
    again = [OffsetToCommit("t", part, 5) for part in lost]
    assert place.commit("a", 3, again, version=9) == [E.STALE_MEMBER_EPOCH]
    assert place.commit("a", 3, [OffsetToCommit("t", min(kept), 5)], version=9) == [E.NONE]


def test_offsets_are_fetched_with_the_members_epoch() -> None:
    place = room()
    one = Consumer(place, "a")
    one.beat()
    place.groups.check_fetch("g", None, -1)
    place.groups.check_fetch("g", "a", one.epoch)
    for member, epoch, code in (
        ("a", 9, E.STALE_MEMBER_EPOCH),
        ("b", 1, E.UNKNOWN_MEMBER_ID),
    ):
        with pytest.raises(ApiError) as error:
            place.groups.check_fetch("g", member, epoch)
        assert error.value.code is code


def test_offsets_nobody_subscribes_to_end_and_an_empty_group_with_them() -> None:
    place = room(offsets_retention_minutes=1, offsets_retention_check_interval_ms=1000)
    one = Consumer(place, "a")
    one.beat()
    two = [OffsetToCommit("t", 0, 1), OffsetToCommit("other", 0, 2)]
    place.commit("a", one.epoch, two, version=9)
    for _ in range(4):
        place.clock.advance(30)
        one.beat()
    assert place.committed("t") == 1, "it is subscribed to"
    assert place.committed("other") is None
    one.leave()
    place.clock.advance(2)
    assert place.committed("t") is None
    assert "g" not in place.groups.shard("g").modern
    assert "g" not in place.restart().groups.shard("g").modern


def test_a_group_with_members_is_not_deleted_and_an_empty_one_is() -> None:
    place = room()
    one = Consumer(place, "a")
    one.beat()
    codes: list[ErrorCode] = []
    place.groups.delete("g", codes.append)
    one.leave()
    place.groups.delete("g", codes.append)
    assert codes == [E.NON_EMPTY_GROUP, E.NONE]
    later = place.restart().groups.shard("g")
    assert not later.modern
    assert not later.groups


def test_offsets_of_a_topic_somebody_reads_are_not_deleted() -> None:
    place = room()
    one = Consumer(place, "a")
    one.beat()
    place.commit("a", one.epoch, [OffsetToCommit("other", 0, 2)], version=9)
    found: list[object] = []
    place.groups.delete_offsets("g", [("t", 0), ("other", 0)], lambda *got: found.append(got))
    place.clock.advance()
    assert found == [(E.NONE, [E.GROUP_SUBSCRIBED_TO_TOPIC, E.NONE])]
    assert place.committed("other") is None


# --- what administrators see -------------------------------------------------------------------


def test_a_group_is_listed_and_described_as_what_it_is() -> None:
    place = room()
    settle(Consumer(place, "a"), Consumer(place, "b", regex="other", topics=frozenset()))
    place.stable(group="classic")
    assert {(one.group_id, one.group_type, one.state) for one in place.groups.list_groups()} == {
        ("g", "consumer", "Stable"),
        ("classic", "classic", "Stable"),
    }
    assert [one.group_id for one in place.groups.list_groups(types=["Consumer"])] == ["g"]
    assert not place.groups.list_groups(states=["empty"])
    shown = place.groups.describe_consumer("g")
    assert (shown.state, shown.epoch, shown.target_epoch) == ("Stable", 3, 3)
    assert shown.assignor == "uniform"
    by_id = {one.member_id: one for one in shown.members}
    assert by_id["a"].assigned == by_id["a"].target
    assert by_id["b"].regex == "other"
    assert by_id["b"].target[0].name == "other"
    assert place.groups.describe_consumer("classic").error is E.GROUP_ID_NOT_FOUND
    other = place.groups.describe("g")
    assert (other.error, other.state) == (E.GROUP_ID_NOT_FOUND, "Dead")
