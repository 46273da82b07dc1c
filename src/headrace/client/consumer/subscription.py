"""What members of a group tell each other, as the client has it: topics and partitions by name."""

from collections.abc import Mapping, Sequence

from headrace.model.nouns import TopicPartition
from headrace.model.ranges import split_into_ranges
from headrace.wire.kafka import consumer_protocol


def encode_subscription(topics: Sequence[str]) -> bytes:
    """Encode a subscription, version 0."""
    return consumer_protocol.subscription(topics)


def decode_subscription(data: bytes) -> list[str]:
    """Decode the topics a member wants, of any version; Malformed."""
    return consumer_protocol.read_topics(data)


def encode_assignment(partitions: Sequence[TopicPartition]) -> bytes:
    """Encode an assignment, version 0."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    return consumer_protocol.assignment(0, by_topic)


def decode_assignment(data: bytes) -> list[TopicPartition]:
    """Decode the partitions a member was given, of any version; Malformed."""
    return [
        TopicPartition(topic, partition)
        for topic, numbers in consumer_protocol.read_assignment(data)
        for partition in numbers
    ]


def assign_ranges(
    members: Mapping[str, Sequence[str]], partitions: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """Assign by the range assignor: per topic, neighbours together, the first members more.

    `members`: topics by member id; `partitions`: their number by topic.
    """
    given: dict[str, list[TopicPartition]] = {member: [] for member in members}
    for topic in sorted(partitions):
        wanting = sorted(member for member, topics in members.items() if topic in topics)
        if not wanting:
            continue
        for member, numbers in split_into_ranges(partitions[topic], wanting):
            given[member] += [TopicPartition(topic, number) for number in numbers]
    return given
