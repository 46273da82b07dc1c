"""What classic consumers say inside JoinGroup and SyncGroup (ConsumerProtocol, versions 0 to 3)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from headrace.model.errors import Malformed
from headrace.wire.kafka.coordinator_records.offsets_tables import ASSIGNMENT, SUBSCRIPTION
from headrace.wire.schema import Message

TopicNumbers = tuple[tuple[str, tuple[int, ...]], ...]


class EmbeddedSubscription(NamedTuple):
    """Later versions' fields are dropped."""

    version: int
    topics: frozenset[str]
    owned: TopicNumbers
    rack_id: str | None


def _read(message: Message, data: bytes) -> tuple[int, Mapping[str, Any]]:
    """Read a message; a version later than the known ones begins like the last of them.

    Malformed where it does not.
    """
    version = int.from_bytes(data[:2], "big", signed=True) if len(data) >= 2 else -1
    return version, message.decode(data, min(version, message.latest), 2)


def _numbers(topics: Iterable[Mapping[str, Any]]) -> TopicNumbers:
    return tuple((topic["topic"], tuple(topic["partitions"])) for topic in topics)


def read_subscription(metadata: bytes) -> EmbeddedSubscription:
    """Read what the member asks for. Malformed."""
    version, read = _read(SUBSCRIPTION, metadata)
    return EmbeddedSubscription(
        version,
        frozenset(read["topics"]),
        _numbers(read.get("ownedPartitions", ())),
        read.get("rackId"),
    )


def read_topics(metadata: bytes) -> list[str]:
    """Read the topics the member asks for, as it named them. Malformed."""
    topics: list[str] = _read(SUBSCRIPTION, metadata)[1]["topics"]
    return topics


def read_assignment(data: bytes) -> TopicNumbers:
    """Read what the member was given; nothing where it was given nothing. Malformed."""
    return _numbers(_read(ASSIGNMENT, data)[1]["assignedPartitions"]) if data else ()


def assignment(version: int, topics: Mapping[str, Iterable[int]]) -> bytes:
    """Encode an assignment in the member's own version."""
    version = max(0, min(version, ASSIGNMENT.latest))
    partitions = [{"topic": topic, "partitions": sorted(topics[topic])} for topic in sorted(topics)]
    fields = {"assignedPartitions": partitions, "userData": None}
    return ASSIGNMENT.encode(fields, version, head=version)


def subscription(topics: Sequence[str]) -> bytes:
    """Encode a subscription, version 0."""
    return SUBSCRIPTION.encode({"topics": topics, "userData": None}, 0, head=0)


def version_of(metadata: bytes) -> int:
    """Return the version a member's subscription is in; 0 where it is none."""
    try:
        return read_subscription(metadata).version
    except Malformed:
        return 0
