"""Whether topics may be created or grow, and where their partitions go. Asks the picture only.

Codes are those of Kafka 4.3's controller (ReplicationControlManager, ControllerApis).
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.broker.metadata_image import MetadataImage
from headrace.cluster.settings.config_descriptions import check_topic_config
from headrace.config.keys.log import LogKeys
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import METADATA_TOPIC, BrokerId, topic_name_problem

USE_DEFAULT = -1

Assignment = Mapping[int, Sequence[int]]
"""Replicas by partition number."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic as somebody wants it."""

    name: str
    partitions: int = USE_DEFAULT
    replication_factor: int = USE_DEFAULT
    assignment: Assignment = field(default_factory=dict)
    """Not empty: the two numbers must be -1."""
    config: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Planned:
    """A topic that may be created, settled in all but its id."""

    name: str
    replicas: tuple[tuple[BrokerId, ...], ...]
    """Of each partition, the preferred leader first."""
    config: Mapping[str, str]


def plan_topic(wanted: NewTopic, image: MetadataImage, limits: LogKeys) -> Planned:
    """Settle a topic that may be created now; ApiError says why it may not."""
    check_name(wanted.name, image)
    if wanted.assignment:
        if wanted.partitions != USE_DEFAULT or wanted.replication_factor != USE_DEFAULT:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                "with a manual assignment, partitions and replication factor must be -1",
            )
        count = len(wanted.assignment)
        _check_caps(count, count, image, limits)
        replicas = check_assignment(wanted.assignment, image, first=0)
    else:
        count = limits.num_partitions if wanted.partitions == USE_DEFAULT else wanted.partitions
        if count <= 0:
            raise ApiError(ErrorCode.INVALID_PARTITIONS, f"{count} is no number of partitions")
        _check_caps(count, count, image, limits)
        factor = wanted.replication_factor
        if factor == USE_DEFAULT:
            factor = limits.default_replication_factor
        replicas = place(count, factor, image)
    return Planned(wanted.name, replicas, check_topic_config(wanted.config))


def check_name(name: str, image: MetadataImage) -> None:
    """Refuse names that are none, taken, reserved, or alike in metrics ('.' and '_' collide)."""
    problem = topic_name_problem(name)
    if problem is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic name {name[:300]!r}: {problem}")
    if name == METADATA_TOPIC:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{name} is reserved for KRaft's own log")
    if name in image.topics:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    if "." in name or "_" in name:
        folded = _folded(name)
        for other in image.topics:
            if _folded(other) == folded:
                raise ApiError(
                    ErrorCode.INVALID_TOPIC_EXCEPTION,
                    f"{name} collides with existing topic {other}: '.' and '_' count as equal",
                )


def plan_growth(
    name: str,
    count: int,
    assignments: Sequence[Sequence[int]] | None,
    image: MetadataImage,
    limits: LogKeys,
) -> tuple[tuple[BrokerId, ...], ...]:
    """Replicas of the partitions that bring topic `name` to `count`; ApiError."""
    topic = image.topics.get(name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
    present = len(topic.partitions)
    if count <= present:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"topic {name} has {present} partitions already, {count} is no more than that",
        )
    added = count - present
    _check_caps(count, added, image, limits)
    factor = len(topic.partitions[0].replicas)
    if assignments is None:
        return place(added, factor, image)
    if len(assignments) != added:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{added} partitions are added, {len(assignments)} assignments were given",
        )
    replicas = check_assignment(dict(enumerate(assignments, present)), image, first=present)
    if any(len(one) != factor for one in replicas):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"each partition of {name} has {factor} replicas"
        )
    return replicas


def check_assignment(
    assignment: Assignment, image: MetadataImage, *, first: int
) -> tuple[tuple[BrokerId, ...], ...]:
    """A manual assignment in the order of partitions; INVALID_REPLICA_ASSIGNMENT."""
    refuse = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    if sorted(assignment) != list(range(first, first + len(assignment))):
        raise ApiError(refuse, f"partitions must be numbered from {first} on, without holes")
    replicas = [tuple(BrokerId(one) for one in assignment[index]) for index in sorted(assignment)]
    for index, found in enumerate(replicas, first):
        if not found:
            raise ApiError(refuse, f"partition {index} has no replica")
        if len(set(found)) < len(found):
            raise ApiError(refuse, f"partition {index} has a broker twice")
        for broker in found:
            if broker not in image.brokers:
                raise ApiError(refuse, f"partition {index}: there is no broker {broker}")
        if len(found) != len(replicas[0]):
            raise ApiError(refuse, "all partitions must have as many replicas as the first")
    return tuple(replicas)


def place(count: int, factor: int, image: MetadataImage) -> tuple[tuple[BrokerId, ...], ...]:
    """Replicas for `count` partitions: leaders go to the brokers that lead fewest.

    INVALID_REPLICATION_FACTOR where there are not that many brokers.
    """
    if factor <= 0:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR, f"{factor} is no replication factor; -1: default"
        )
    if factor > len(image.brokers):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {factor} is larger than the number of brokers,"
            f" {len(image.brokers)}",
        )
    if len(image.brokers) == 1:
        return ((next(iter(image.brokers)),),) * count
    leading = dict.fromkeys(sorted(image.brokers), 0)
    for topic in image.topics.values():
        for partition in topic.partitions:
            if partition.leader in leading:
                leading[partition.leader] += 1
    ring = list(leading)
    placed = []
    for _ in range(count):
        leader = min(ring, key=lambda broker: (leading[broker], broker))
        leading[leader] += 1
        at = ring.index(leader)
        placed.append(tuple(ring[(at + step) % len(ring)] for step in range(factor)))
    return tuple(placed)


def duplicates(names: Sequence[str]) -> Collection[str]:
    """Names that a request holds more than once."""
    return {name for name, times in Counter(names).items() if times > 1}


def _check_caps(count: int, added: int, image: MetadataImage, limits: LogKeys) -> None:
    if count > limits.partitions_per_topic_max:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"{count} partitions are more than partitions.per.topic.max="
            f"{limits.partitions_per_topic_max}",
        )
    total = sum(len(topic.partitions) for topic in image.topics.values()) + added
    if total > limits.partitions_max:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"{total} partitions in all would be more than partitions.max={limits.partitions_max}",
        )


def _folded(name: str) -> str:
    return name.replace(".", "_")
