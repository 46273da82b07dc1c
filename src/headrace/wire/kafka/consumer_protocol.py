"""Consumer protocol: subscriptions and assignments inside JoinGroup and SyncGroup (versions
0-3)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from headrace.model.errors import Malformed
from headrace.wire.kafka.coordinator_records.offsets_tables import ASSIGNMENT, SUBSCRIPTION
from headrace.wire.schema import MessageSchema

TopicNumbers = tuple[tuple[str, tuple[int, ...]], ...]


class EmbeddedSubscription(NamedTuple):
    """A decoded subscription; fields of later versions are ignored."""

    version: int
    topics: frozenset[str]
    owned: TopicNumbers
    rack_id: str | None


def _read(message: MessageSchema, data: bytes) -> tuple[int, Mapping[str, Any]]:
    """Return a message's version and its fields by name. Raises Malformed.

    A version later than the known ones is read as the latest known one.
    """
    version = int.from_bytes(data[:2], "big", signed=True) if len(data) >= 2 else -1
    return version, message.decode(data, min(version, message.latest), 2)


def _numbers(topics: Iterable[Mapping[str, Any]]) -> TopicNumbers:
    return tuple((topic["topic"], tuple(topic["partitions"])) for topic in topics)


def read_subscription(metadata: bytes) -> EmbeddedSubscription:
    """Decode a member's subscription. Raises Malformed."""
    version, read = _read(SUBSCRIPTION, metadata)
    return EmbeddedSubscription(
        version,
        frozenset(read["topics"]),
        _numbers(read.get("ownedPartitions", ())),
        read.get("rackId"),
    )


def read_topics(metadata: bytes) -> list[str]:
    """Decode the topics of a member's subscription, in its order. Raises Malformed."""
    topics: list[str] = _read(SUBSCRIPTION, metadata)[1]["topics"]
    return topics


def read_assignment(data: bytes) -> TopicNumbers:
    """Decode a member's assigned partitions by topic; empty for empty bytes. Raises Malformed."""
    return _numbers(_read(ASSIGNMENT, data)[1]["assignedPartitions"]) if data else ()


def assignment(version: int, topics: Mapping[str, Iterable[int]]) -> bytes:
    """Encode an assignment in the version that the member uses."""
    version = max(0, min(version, ASSIGNMENT.latest))
    partitions = [{"topic": topic, "partitions": sorted(topics[topic])} for topic in sorted(topics)]
    fields = {"assignedPartitions": partitions, "userData": None}
    return ASSIGNMENT.encode(fields, version, head=version)


def subscription(topics: Sequence[str]) -> bytes:
    """Encode a subscription, version 0."""
    return SUBSCRIPTION.encode({"topics": topics, "userData": None}, 0, head=0)


def version_of(metadata: bytes) -> int:
    """Return the version of a member's subscription; 0 if it is invalid."""
    try:
        return read_subscription(metadata).version
    except Malformed:
        return 0
