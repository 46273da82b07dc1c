"""Where partitions go, and which topics are refused with which code."""

from typing import Any

import pytest

from headrace.broker.metadata_image import (
    BrokerInfo,
    Endpoint,
    MetadataImage,
    PartitionInfo,
    TopicInfo,
)
from headrace.cluster.topic_creation import NewTopic, place, plan_growth, plan_topic
from headrace.config.keys.log import LogKeys
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch

LIMITS = LogKeys(partitions_per_topic_max=100, partitions_max=1000)


def image(brokers: int, *topics: tuple[str, list[int]]) -> MetadataImage:
    """A cluster of so many brokers; topics by the leaders of their partitions."""
    ids = [BrokerId(one) for one in range(brokers)]
    found = MetadataImage("c").with_brokers(
        [BrokerInfo(one, (Endpoint("PLAINTEXT", "h", 1),)) for one in ids], ids[0]
    )
    return found.with_topics(
        TopicInfo(
            name,
            name.encode().ljust(16),
            tuple(
                PartitionInfo(at, BrokerId(one), LeaderEpoch(0), (BrokerId(one),), (BrokerId(one),))
                for at, one in enumerate(leaders)
            ),
        )
        for name, leaders in topics
    )


def code(call: Any) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        call()
    assert caught.value.message
    return caught.value.code


def test_leaders_go_to_the_brokers_that_lead_fewest_and_replicas_follow_the_ring() -> None:
    cluster = image(3, ("t", [0, 0, 1]))
    placed = place(4, 2, cluster)
    leaders = [one[0] for one in placed]
    assert leaders == [2, 1, 2, 0]
    assert placed == ((2, 0), (1, 2), (2, 0), (0, 1))


def test_eight_brokers_share_13_and_19_partitions_evenly() -> None:
    cluster = image(8)
    led = dict.fromkeys(range(8), 0)
    for name, count in (("one", 13), ("two", 19)):
        leaders = [one[0] for one in place(count, 1, cluster)]
        for leader in leaders:
            led[leader] += 1
        cluster = image(8, ("one", [int(one) for one in leaders]), (name + "x", []))
    assert sorted(led.values()) == [4] * 8


@pytest.mark.parametrize("factor", [0, -2, 4])
def test_a_replication_factor_that_cannot_be_is_refused(factor: int) -> None:
    cluster = image(3)
    refused = code(lambda: plan_topic(NewTopic("t", 1, factor), cluster, LIMITS))
    assert refused is ErrorCode.INVALID_REPLICATION_FACTOR


@pytest.mark.parametrize(
    "assignment",
    [
        {0: ()},
        {0: (0, 0)},
        {0: (0,), 1: (9,)},
        {0: (0,), 2: (0,)},
        {1: (0,)},
        {0: (0, 1), 1: (0,)},
    ],
)
def test_a_manual_assignment_that_cannot_be_is_refused(assignment: dict[int, Any]) -> None:
    wanted = NewTopic("t", assignment=assignment)
    refused = code(lambda: plan_topic(wanted, image(3), LIMITS))
    assert refused is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_manual_assignment_is_kept_in_its_order() -> None:
    wanted = NewTopic("t", assignment={1: (0, 2), 0: (2, 1)})
    assert plan_topic(wanted, image(3), LIMITS).replicas == ((2, 1), (0, 2))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (".", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("../x", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("t\n", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("ü", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("x" * 250, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a_b.c", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a.b.c", ErrorCode.TOPIC_ALREADY_EXISTS),
        ("__cluster_metadata", ErrorCode.INVALID_REQUEST),
    ],
)
def test_names_are_refused_as_kafka_refuses_them(name: str, expected: ErrorCode) -> None:
    cluster = image(1, ("a.b.c", [0]))
    assert code(lambda: plan_topic(NewTopic(name), cluster, LIMITS)) is expected


def test_growth_takes_the_topics_own_replication_factor_and_stays_in_bounds() -> None:
    cluster = image(2, ("t", [0]))
    assert plan_growth("t", 3, None, cluster, LIMITS) == ((1,), (0,))
    assert plan_growth("t", 2, [(1,)], cluster, LIMITS) == ((1,),)
    for count, assignments, expected in (
        (1, None, ErrorCode.INVALID_PARTITIONS),
        (101, None, ErrorCode.POLICY_VIOLATION),
        (3, [(1,)], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (2, [(0, 1)], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ):
        refused = code(lambda c=count, a=assignments: plan_growth("t", c, a, cluster, LIMITS))
        assert refused is expected
    assert code(lambda: plan_growth("u", 2, None, cluster, LIMITS)) is (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )


def test_a_picture_is_replaced_never_changed() -> None:
    before = image(1, ("t", [0]))
    after = before.without_topics(["t", "nope"])
    assert set(before.topics) == {"t"}
    assert after.topics == {}
    assert after.topics_by_id == {}
    assert after.version > before.version
    again = after.with_topics([before.topics["t"]])
    other = TopicInfo("t", b"x" * 16, ())
    assert set(again.with_topics([other]).topics_by_id) == {b"x" * 16}
