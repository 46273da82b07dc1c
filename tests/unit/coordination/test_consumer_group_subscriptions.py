"""What consumers of the newer protocol ask for: topics, expressions, assignors; refusals."""

import pytest

from headrace.model.errors import ErrorCode
from tests.support.client.consumer_kit import (
    Consumer,
    cluster,
    group_of,
    grown,
    numbers,
    room,
    settle,
    topic_id,
)
from tests.support.coordination.groups_kit import Room

E = ErrorCode


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
