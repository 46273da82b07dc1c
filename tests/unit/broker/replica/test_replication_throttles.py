"""Which replicas are throttled, and when what is counted of them exceeds the rate."""

import pytest

from headrace.broker.metadata_image import ImageDelta, MetadataImage, TopicInfo
from headrace.broker.rates import Rate, SimpleRate
from headrace.broker.replica.replication_throttles import (
    HOLD_SECONDS_MIN,
    ReplicationThrottle,
    ReplicationThrottles,
)
from headrace.config.broker import load
from headrace.config.keys.topic import FOLLOWERS_THROTTLED, LEADERS_THROTTLED
from headrace.config.value_types import LONG_MAX
from headrace.model.nouns import BrokerId

OWN = BrokerId(2)


class Throttled:
    """A throttle of 1000 bytes a second over 11 windows of a second, and a clock."""

    def __init__(self, bound: int = 1000) -> None:
        self.now = 100.0
        self.throttle = ReplicationThrottle(lambda: self.now, 11, 1)
        self.throttle.set_bound(bound)


def throttles() -> ReplicationThrottles:
    return ReplicationThrottles(OWN, load()[0], lambda: 0.0, MetadataImage("c"))


def named(text: str) -> ReplicationThrottles:
    found = throttles()
    found._picture_changed(ImageDelta([TopicInfo("t", b"1" * 16, (), config=config(text))]), True)
    return found


def config(text: str) -> dict[str, str]:
    return {LEADERS_THROTTLED: text}


def exceeded(here: Throttled) -> bool:
    return here.throttle.exceeded


def throttled(found: ReplicationThrottles) -> list[int]:
    return [index for index in range(4) if found.leader.throttles("t", index)]


@pytest.mark.parametrize(
    ("text", "partitions"),
    [
        ("*", [0, 1, 2, 3]),
        ("0:2,1:3,3:2", [0, 3]),
        (" 0:2 , 1:2", [0, 1]),
        ("0:12,1:22", []),
        ("", []),
        ("none of it", []),
        ("*:2", []),
    ],
)
def test_a_topic_names_the_partitions_of_which_the_replica_here_is_throttled(
    text: str, partitions: list[int]
) -> None:
    found = named(text)
    assert throttled(found) == partitions
    assert found.leader.names_any == bool(partitions)
    assert not found.follower.names_any


def test_other_topics_are_not_throttled_and_each_side_has_its_own_list() -> None:
    found = throttles()
    own = {LEADERS_THROTTLED: "0:2", FOLLOWERS_THROTTLED: "1:2"}
    found._picture_changed(ImageDelta([TopicInfo("t", b"1" * 16, (), config=own)]), True)
    assert found.leader.throttles("t", 0)
    assert found.follower.throttles("t", 1)
    assert not found.follower.throttles("t", 0)
    assert not found.leader.throttles("u", 0)


def test_a_topic_that_names_none_any_more_or_is_gone_is_not_throttled() -> None:
    for delta in (ImageDelta([TopicInfo("t", b"1" * 16, ())]), ImageDelta(removed=["t"])):
        found = named("*")
        found._picture_changed(delta, True)
        assert throttled(found) == []


def test_who_watches_is_told_of_other_replicas_and_another_rate_only() -> None:
    found, told = named("0:2"), []
    found.leader.watch(lambda: told.append(1))
    same = ImageDelta([TopicInfo("t", b"1" * 16, (), config=config("0:2"))])
    found._picture_changed(same, False)
    found.leader.set_bound(LONG_MAX)
    assert told == []
    found.leader.set_bound(5)
    found._picture_changed(ImageDelta(removed=["t"]), True)
    assert told == [1, 1]


def test_without_a_rate_nothing_is_exceeded() -> None:
    here = Throttled(LONG_MAX)
    here.throttle.count(1 << 40)
    assert not exceeded(here)


def test_the_rate_is_exceeded_until_the_time_since_makes_up_for_it() -> None:
    here = Throttled()
    assert not exceeded(here)
    here.throttle.count(1000)
    assert not exceeded(here)
    here.throttle.count(4000)
    assert exceeded(here)
    here.now += 4.9
    assert exceeded(here)
    assert here.throttle.hold_seconds() == pytest.approx(0.1)
    here.now += 0.11
    assert not exceeded(here)


def test_it_is_looked_at_again_within_a_window_and_not_at_every_moment() -> None:
    here = Throttled()
    here.throttle.count(1_000_000)
    assert here.throttle.hold_seconds() == 1.0
    here.now += 11.0
    assert not exceeded(here)
    assert here.throttle.hold_seconds() == HOLD_SECONDS_MIN


def test_a_rate_of_none_holds_for_a_window() -> None:
    here = Throttled(0)
    assert not exceeded(here)
    here.throttle.count(1)
    assert exceeded(here)
    assert here.throttle.hold_seconds() == 1.0


def test_no_more_is_asked_for_at_once_than_the_windows_remember() -> None:
    assert Throttled().throttle.bytes_max(1 << 20) == 11_000
    assert Throttled(1 << 30).throttle.bytes_max(1 << 20) == 1 << 20


def test_a_replications_rate_has_no_burst_at_first_as_a_clients_has() -> None:
    """Kafka's SimpleRate, against its Rate, which takes all windows but one for granted."""
    for kind, per_second in ((SimpleRate, 5000), (Rate, 500)):
        rate = kind(11, 1000)
        rate.add(5000, 0)
        assert rate.measure(0)[0] == per_second


def test_the_brokers_settings_are_the_rates() -> None:
    found = throttles()
    assert (found.leader.bound, found.follower.bound) == (LONG_MAX, LONG_MAX)
    changes = {"leader.replication.throttled.rate": 5, "follower.replication.throttled.rate": 7}
    found.reconfigure(load()[0].updated(changes))
    assert (found.leader.bound, found.follower.bound) == (5, 7)
