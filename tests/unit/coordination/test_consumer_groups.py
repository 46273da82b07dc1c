"""Groups of the newer protocol: joining, moving partitions, leaving, being fenced, coming back."""

from headrace.coordination.groups.consumer.messages import HeartbeatRequest
from headrace.coordination.groups.consumer.model import ConsumerGroupState, MemberState
from headrace.model.errors import ErrorCode
from tests.support.client.consumer_kit import (
    Consumer,
    all_owned,
    ask,
    group_of,
    grown,
    numbers,
    room,
    settle,
    topic_id,
)

E = ErrorCode
S = ConsumerGroupState


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


def test_who_waits_for_anothers_partitions_is_shown_with_what_it_has_and_what_it_will_have() -> (
    None
):
    place = room()
    one, two = Consumer(place, "a"), Consumer(place, "b")
    settle(one)
    two.beat()
    shown = {member.member_id: member for member in place.groups.describe_consumer("g").members}
    assert [topic.partitions for topic in shown["a"].assigned] == [(0, 1, 2, 3)]
    assert [len(topic.partitions) for topic in shown["a"].target] == [2]
    assert [len(topic.partitions) for topic in shown["b"].assigned] in ([], [0])
    assert [len(topic.partitions) for topic in shown["b"].target] == [2]
