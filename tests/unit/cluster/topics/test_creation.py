"""Where partitions go, and which topics are refused with which code."""

from collections import Counter
from typing import Any

import pytest

from headrace.broker.metadata_image import (
    BrokerInfo,
    Endpoint,
    ImageDelta,
    MetadataImage,
    PartitionInfo,
    TopicInfo,
)
from headrace.cluster.topics.creation import NewTopic, TopicPlanner
from headrace.config.keys.log import LogKeys
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch

LIMITS = LogKeys(partitions_per_topic_max=100, partitions_max=1000)


def image(brokers: int, *topics: tuple[str, list[int]]) -> MetadataImage:
    """A cluster of so many brokers; topics by the leaders of their partitions."""
    ids = [BrokerId(one) for one in range(brokers)]
    found = MetadataImage("c")
    shown = [
        TopicInfo(
            name,
            name.encode().ljust(16),
            tuple(
                PartitionInfo(at, BrokerId(one), LeaderEpoch(0), (BrokerId(one),), (BrokerId(one),))
                for at, one in enumerate(leaders)
            ),
        )
        for name, leaders in topics
    ]
    alive = [BrokerInfo(one, (Endpoint("PLAINTEXT", "h", 1),)) for one in ids]
    found.apply(ImageDelta(shown, brokers=alive, controller_id=ids[0]))
    return found


def planner(cluster: MetadataImage) -> TopicPlanner:
    return TopicPlanner(cluster, LIMITS)


def code(call: Any) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        call()
    assert caught.value.message
    return caught.value.code


def test_suspected_brokers_get_replicas_only_if_the_others_are_too_few() -> None:
    cluster = image(3, ("t", [0, 1, 1]))
    cluster.suspect(BrokerId(2), cluster.brokers[BrokerId(2)].epoch)
    assert planner(cluster).place(4, 2) == ((0, 1), (1, 0), (0, 1), (1, 0))
    assert set(planner(cluster).place(1, 3)[0]) == {0, 1, 2}
    cluster.believe(BrokerId(2), cluster.brokers[BrokerId(2)].epoch)
    assert planner(cluster).place(1, 1) == ((2,),)


def test_a_topics_leaders_are_on_all_brokers_in_turn_and_its_followers_shift() -> None:
    cluster = image(3, ("t", [0, 0, 1]))
    placed = planner(cluster).place(4, 2)
    assert placed == ((2, 0), (1, 0), (0, 1), (2, 1))


@pytest.mark.parametrize("racks", [(None, None, None), ("a", "b", "c")])
def test_a_small_topic_has_as_many_leaders_as_partitions_whatever_else_is_led(
    racks: tuple[str | None, ...],
) -> None:
    cluster = image(3, ("t", [0] * 9 + [1] * 4))
    brokers = [info._replace(rack=racks[info.broker_id]) for info in cluster.brokers.values()]
    cluster.apply(ImageDelta(brokers=brokers))
    placed = planner(cluster).place(3, 2)
    assert sorted(replicas[0] for replicas in placed) == [0, 1, 2]
    grown = planner(cluster).place(2, 2, [BrokerId(2)])
    assert sorted(replicas[0] for replicas in grown) == [0, 1]


def test_the_followers_of_one_brokers_partitions_are_all_the_others() -> None:
    placed = planner(image(4)).place(12, 2)
    assert sorted(replicas[1] for replicas in placed if replicas[0] == 1) == [0, 2, 3]


def test_eight_brokers_share_13_and_19_partitions_evenly() -> None:
    cluster = image(8)
    led = dict.fromkeys(range(8), 0)
    for name, count in (("one", 13), ("two", 19)):
        leaders = [one[0] for one in planner(cluster).place(count, 1)]
        for leader in leaders:
            led[leader] += 1
        cluster = image(8, ("one", [int(one) for one in leaders]), (name + "x", []))
    assert sorted(led.values()) == [4] * 8


@pytest.mark.parametrize("racks", [(None, None), ("a", "b")])
def test_partitions_that_a_topic_gains_go_where_least_is_led_once_it_is_spread(
    racks: tuple[str | None, ...],
) -> None:
    """Broker 1 leads one of another topic: with two of this one it leads three, and 0 has two."""
    cluster = image(2, ("grows", [0, 0]), ("other", [1]))
    brokers = [info._replace(rack=racks[info.broker_id]) for info in cluster.brokers.values()]
    cluster.apply(ImageDelta(brokers=brokers))
    placed = planner(cluster).place(3, 1, [BrokerId(0), BrokerId(0)])
    assert placed == ((1,), (1,), (0,))


RACKS: list[list[str | None]] = [
    ["a", "b", "c"],
    ["a", "a", "b", "b", "c", "c"],
    ["a", "b", "a", "b"],
    ["a", "a", "a", "b", "b", "b", "c", "c", "c"],
    ["a", "b", "b", "b", "c"],
    ["a", "b", None, None],
    [None, "a", "a"],
    ["a", "a", "a"],
]


@pytest.mark.parametrize("racks", RACKS, ids=lambda racks: "".join(rack or "-" for rack in racks))
@pytest.mark.parametrize("factor", [1, 2, 3])
def test_replicas_stand_on_as_many_racks_as_there_are_and_leaders_are_spread(
    factor: int, racks: list[str | None]
) -> None:
    cluster = image(len(racks))
    brokers = [info._replace(rack=racks[info.broker_id]) for info in cluster.brokers.values()]
    cluster.apply(ImageDelta(brokers=brokers))
    kinds = set(racks)
    sizes = [racks.count(rack) for rack in kinds]
    for count in (1, 7, 24):
        placed = planner(cluster).place(count, factor)
        assert len(placed) == count
        led: Counter[BrokerId] = Counter(dict.fromkeys(cluster.brokers, 0))
        held: Counter[BrokerId] = Counter(dict.fromkeys(cluster.brokers, 0))
        for replicas in placed:
            assert len(set(replicas)) == factor
            on = Counter(racks[broker] for broker in replicas)
            assert len(on) == min(factor, len(kinds))
            assert max(on.values()) - min((on[rack] for rack in kinds), default=0) <= max(
                1, factor - min(sizes)
            )
            led[replicas[0]] += 1
            held.update(replicas)
        assert max(led.values()) - min(led.values()) <= 1
        if len(set(sizes)) == 1:
            assert max(held.values()) - min(held.values()) <= 1


@pytest.mark.parametrize("factor", [0, -2, 4])
def test_a_replication_factor_that_cannot_be_is_refused(factor: int) -> None:
    cluster = image(3)
    refused = code(lambda: planner(cluster).plan(NewTopic("t", 1, factor)))
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
    refused = code(lambda: planner(image(3)).plan(wanted))
    assert refused is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_manual_assignment_is_kept_in_its_order() -> None:
    wanted = NewTopic("t", assignment={1: (0, 2), 0: (2, 1)})
    assert planner(image(3)).plan(wanted).replicas == ((2, 1), (0, 2))


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
    assert code(lambda: planner(cluster).plan(NewTopic(name))) is expected


def test_growth_takes_the_topics_own_replication_factor_and_stays_in_bounds() -> None:
    cluster = image(2, ("t", [0]))
    assert planner(cluster).plan_growth("t", 3, None) == ((1,), (0,))
    assert planner(cluster).plan_growth("t", 2, [(1,)]) == ((1,),)
    for count, assignments, expected in (
        (1, None, ErrorCode.INVALID_PARTITIONS),
        (101, None, ErrorCode.POLICY_VIOLATION),
        (3, [(1,)], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (2, [(0, 1)], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ):
        refused = code(lambda c=count, a=assignments: planner(cluster).plan_growth("t", c, a))
        assert refused is expected
    assert code(lambda: planner(cluster).plan_growth("u", 2, None)) is (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )


def test_topics_planned_before_count_for_those_behind_them() -> None:
    plans = TopicPlanner(
        image(2, ("t", [0])), LogKeys(partitions_per_topic_max=100, partitions_max=4)
    )
    first = plans.plan(NewTopic("a.b", 2, 1))
    plans.take(first)
    assert first.replicas == ((1,), (0,))
    assert code(lambda: plans.plan(NewTopic("a.b", 1, 1))) is ErrorCode.TOPIC_ALREADY_EXISTS
    assert code(lambda: plans.plan(NewTopic("a_b", 1, 1))) is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert code(lambda: plans.plan(NewTopic("u", 2, 1))) is ErrorCode.POLICY_VIOLATION
    assert plans.plan(NewTopic("u", 1, 1)).replicas == ((1,),)
