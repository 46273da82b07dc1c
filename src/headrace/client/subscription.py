"""What members of a group tell each other: subscriptions and assignments (ConsumerProtocol).

Non-flexible structures behind a version: the broker passes them on as bytes.
"""

from collections.abc import Mapping, Sequence

from headrace.model.nouns import TopicPartition
from headrace.wire.kafka.reader import Reader
from headrace.wire.kafka.writer import Writer


def encode_subscription(topics: Sequence[str]) -> bytes:
    """A subscription, version 0."""
    writer = Writer()
    writer.int16(0)
    writer.strings(list(topics))
    writer.nullable_bytes(None)
    return bytes(writer.out)


def decode_subscription(data: bytes) -> list[str]:
    """The topics a member wants, of any version; Malformed."""
    reader = Reader(memoryview(data))
    reader.int16()
    return reader.strings()


def encode_assignment(partitions: Sequence[TopicPartition]) -> bytes:
    """An assignment, version 0."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    writer = Writer()
    writer.int16(0)
    writer.count(len(by_topic))
    for topic, numbers in by_topic.items():
        writer.string(topic)
        writer.int32s(numbers)
    writer.nullable_bytes(None)
    return bytes(writer.out)


def decode_assignment(data: bytes) -> list[TopicPartition]:
    """The partitions a member was given, of any version; Malformed."""
    reader = Reader(memoryview(data))
    reader.int16()
    found = []
    for _ in range(reader.count(6)):
        topic = reader.string()
        found += [TopicPartition(topic, partition) for partition in reader.int32s()]
    return found


def assign_ranges(
    members: Mapping[str, Sequence[str]], partitions: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """Who gets what by the range assignor: per topic, neighbours together, the first members more.

    `members`: topics by member id; `partitions`: their number by topic.
    """
    given: dict[str, list[TopicPartition]] = {member: [] for member in members}
    for topic in sorted(partitions):
        wanting = sorted(member for member, topics in members.items() if topic in topics)
        if not wanting:
            continue
        each, more = divmod(partitions[topic], len(wanting))
        at = 0
        for place, member in enumerate(wanting):
            count = each + (place < more)
            given[member] += [TopicPartition(topic, one) for one in range(at, at + count)]
            at += count
    return given
