"""The replicas that the log of declarations gets as more brokers serve queues."""

from collections.abc import Mapping

from headrace.broker.metadata_image import PartitionInfo, TopicInfo
from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition
from headrace.vhosts.declarations.log_growth import majority_to_set, missing_replicas

TOPIC = "__amqp.declarations"


def topic(
    *replicas: tuple[int, ...], isr: tuple[int, ...] = (), config: Mapping[str, str] | None = None
) -> TopicInfo:
    partitions = tuple(
        PartitionInfo(
            index,
            BrokerId(each[0]),
            LeaderEpoch(0),
            tuple(map(BrokerId, each)),
            tuple(map(BrokerId, isr or each)),
        )
        for index, each in enumerate(replicas)
    )
    return TopicInfo(TOPIC, b"1" * 16, partitions, config=config or {})


def missing(
    of: TopicInfo, *able: int, unable: tuple[int, ...] = ()
) -> dict[int, tuple[int, ...] | None]:
    moves = missing_replicas(
        of, [BrokerId(broker) for broker in able], tuple(map(BrokerId, unable))
    )
    assert all(each.topic == TOPIC for each in moves)
    return {each.partition: moves[TopicPartition(TOPIC, each.partition)] for each in moves}


def test_partitions_get_three_replicas_and_keep_those_they_have() -> None:
    assert missing(topic((1,), (1,)), 1) == {}
    assert missing(topic((1,), (1,)), 1, 2) == {0: (1, 2), 1: (1, 2)}
    assert missing(topic((1,), (2, 1)), 1, 2, 3, 4) == {0: (1, 2, 3), 1: (2, 1, 4)}
    assert missing(topic((1, 2, 3)), 1, 2, 3, 4) == {}
    assert missing(topic((9,)), 1, 2) == {0: (9, 1, 2)}, "a broker that is down stays"


def test_replicas_on_brokers_that_serve_no_queues_are_replaced() -> None:
    assert missing(topic((3,)), 1, 2, unable=(3,)) == {0: (1, 2)}
    assert missing(topic((3, 1, 4)), 1, 2, unable=(3, 4)) == {0: (1, 2)}
    assert missing(topic((3, 1, 4)), 1, unable=(3,)) == {0: (1, 4)}, "broker 4 is down"


def test_majority_is_required_once_all_replicas_are_in_sync() -> None:
    assert majority_to_set(topic((1,))) is None
    assert majority_to_set(topic((1, 2, 3), isr=(1,))) is None
    assert majority_to_set(topic((1, 2, 3), config={"min.insync.replicas": "1"})) == 2
    assert majority_to_set(topic((1, 2, 3), config={"min.insync.replicas": "2"})) is None
