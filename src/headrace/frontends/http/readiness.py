"""Whether a broker's part of the cluster is whole, so that the next one may be restarted."""

from typing import TYPE_CHECKING

from headrace.broker.metadata_image import NO_LEADER
from headrace.model.nouns import TopicPartition

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

NAMED_MAX = 10
"""Most partitions listed by name for each reason; the others are only counted."""


def awaited(broker: "Broker") -> list[str]:
    """Return the reasons why no other broker may be stopped yet; an empty list means ready.

    Each partition with a replica on this broker must have a leader and all its replicas in sync.
    Replicas that a reassignment adds are not awaited (KIP-352).
    """
    image, own = broker.image, broker.broker_id
    found: list[str] = []
    if own not in image.brokers:
        found.append("this broker is not registered")
    if image.controller_id == NO_LEADER:
        found.append("the cluster has no controller")
    failed = sum(directory.fenced for directory in broker.directories)
    if failed:
        found.append(f"{failed} log directories of this broker have failed")
    held = [
        (TopicPartition(topic.name, partition.index), partition)
        for topic in image.topics.values()
        for partition in topic.partitions
        if own in partition.replicas
    ]
    without = [name for name, partition in held if partition.leader == NO_LEADER]
    missing = [
        name
        for name, partition in held
        if partition.leader != NO_LEADER
        and not set(partition.replicas) - image.adding.get(name, frozenset()) <= set(partition.isr)
    ]
    return [*found, *_named("without a leader", without), *_named("under-replicated", missing)]


def _named(what: str, partitions: list[TopicPartition]) -> list[str]:
    if not partitions:
        return []
    names = ", ".join(f"{topic}-{index}" for topic, index in sorted(partitions)[:NAMED_MAX])
    more = len(partitions) - NAMED_MAX
    return [f"partitions {what}: {names}{f' and {more} more' if more > 0 else ''}"]
