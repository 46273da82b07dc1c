"""Subscriptions and assignments of the consumer protocol, with partitions by topic name."""

from collections.abc import Mapping, Sequence

from headrace.model.nouns import TopicPartition, by_topic
from headrace.model.ranges import split_into_ranges
from headrace.wire.kafka import consumer_protocol


def encode_subscription(topics: Sequence[str]) -> bytes:
    """Encode a subscription of the consumer protocol, version 0."""
    return consumer_protocol.subscription(topics)


def decode_subscription(data: bytes) -> list[str]:
    """Decode the subscribed topics of a member, any version. Raises Malformed."""
    return consumer_protocol.read_topics(data)


def encode_assignment(partitions: Sequence[TopicPartition]) -> bytes:
    """Encode an assignment of the consumer protocol, version 0."""
    return consumer_protocol.assignment(0, by_topic(partitions))


def decode_assignment(data: bytes) -> list[TopicPartition]:
    """Decode the partitions assigned to a member, any version. Raises Malformed."""
    return [
        TopicPartition(topic, partition)
        for topic, numbers in consumer_protocol.read_assignment(data)
        for partition in numbers
    ]


def assign_ranges(
    members: Mapping[str, Sequence[str]], partitions: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """Assign partitions as Kafka's range assignor: per topic, contiguous ranges in member order.

    `members`: subscribed topics by member id; `partitions`: partition count by topic. The first
    members get one partition more if the count does not divide evenly.
    """
    given: dict[str, list[TopicPartition]] = {member: [] for member in members}
    for topic in sorted(partitions):
        wanting = sorted(member for member, topics in members.items() if topic in topics)
        if not wanting:
            continue
        for member, numbers in split_into_ranges(partitions[topic], wanting):
            given[member] += [TopicPartition(topic, number) for number in numbers]
    return given
