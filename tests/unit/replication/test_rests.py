"""Partitions that rest after an error: each is asked for again when its own rest is over."""

from functools import partial
from types import SimpleNamespace
from typing import Any

from headrace.model.nouns import TopicPartition
from headrace.replication.followed_partition import FollowedPartition, rest_seconds
from headrace.replication.source import Source
from tests.support.coordination.groups_kit import HandClock


def test_each_of_several_rests_ends_in_its_time() -> None:
    clock = HandClock()
    now = clock.monotonic()
    changed: list[str] = []
    source: Any = SimpleNamespace(
        _rest_timer=None,
        _resting={"a": now + 1, "b": now + 3, "c": now + 3, "d": now + 7},
        members={key: SimpleNamespace(resting=True) for key in "abcd"},
        changed=changed.append,
        _broker=SimpleNamespace(clock=clock),
    )
    source._end_rests = partial(Source._end_rests, source)
    source._arm_rest = partial(Source._arm_rest, source)
    source._arm_rest()
    for seconds, over in ((0.5, ""), (1.0, "a"), (1.0, "a"), (1.0, "abc"), (5.0, "abcd")):
        clock.advance(seconds)
        assert changed == list(over)
        assert [key for key in "abcd" if not source.members[key].resting] == list(over)
    assert source._rest_timer is None
    assert source._resting == {}


def test_a_rest_is_never_longer_than_the_setting_however_often_it_failed() -> None:
    assert [rest_seconds(failures, 1000) for failures in (1, 2, 3)] == [0.05, 0.1, 0.2]
    for failures in (6, 20, 10_000):
        assert rest_seconds(failures, 1000) == 1.0
    assert rest_seconds(1, 20) == 0.02


def test_the_rest_starts_afresh_once_an_answer_was_taken() -> None:
    log: Any = SimpleNamespace(listen=lambda _: None)
    partition: Any = SimpleNamespace(
        topic_id=b"i" * 16, topic_partition=TopicPartition("t", 0), log=log
    )
    follower: Any = None
    member = FollowedPartition(partition, follower, lambda _: None)
    assert [member.failed(1000) for _ in range(2)] == [(0.05, True), (0.1, False)]
    member.succeeded()
    assert member.failed(1000) == (0.05, True)
