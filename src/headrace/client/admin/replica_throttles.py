"""How fast moved replicas are copied: throttles as kafka-reassign-partitions sets them (KIP-73)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from headrace.client.admin.replicas import Reassigning
from headrace.client.admin.topics import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    alter_configs,
    describe_configs,
)
from headrace.client.calls.metadata import Metadata
from headrace.client.client import Client
from headrace.model.nouns import TopicPartition

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
"""A broker's settings, in bytes a second."""
REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
"""A topic's settings, in the same order."""


class Move(NamedTuple):
    """Whence and whither the replicas of a partition are copied."""

    partition: TopicPartition
    sources: frozenset[int]
    targets: frozenset[int]


def moves_of(
    known: Metadata,
    wanted: Mapping[TopicPartition, Sequence[int] | None],
    moving: Iterable[Reassigning],
) -> list[Move]:
    """Return what is being moved and what is to be, as a throttle concerns both."""
    moves = {
        move.partition: Move(
            move.partition, frozenset(move.replicas) - set(move.adding), frozenset(move.adding)
        )
        for move in moving
    }
    for partition, targets in wanted.items():
        now = known.topics[partition.topic].partitions[partition.partition].replicas
        known_move = moves.get(partition, Move(partition, frozenset(now), frozenset()))
        moves[partition] = known_move._replace(targets=known_move.targets | set(targets or ()))
    return sorted(moves.values())


async def throttle(client: Client, moves: Sequence[Move], bytes_per_second: int) -> list[int]:
    """Bound what these moves copy; the brokers that have the bound. ApiError.

    Topics first: where brokers had a rate, it holds for what is moved from the first byte on.
    """
    for topic in sorted({move.partition.topic for move in moves}):
        some = [move for move in moves if move.partition.topic == topic]
        leaders = [_named(move, move.sources) for move in some]
        followers = [_named(move, move.targets - move.sources) for move in some]
        texts = (",".join(filter(None, leaders)), ",".join(filter(None, followers)))
        named = dict(zip(REPLICAS, texts, strict=True))
        await alter_configs(client, TOPIC_RESOURCE, topic, set_=named)
    brokers = sorted({broker for move in moves for broker in move.sources | move.targets})
    for broker in brokers:
        rates = dict.fromkeys(RATES, str(bytes_per_second))
        await alter_configs(client, BROKER_RESOURCE, str(broker), set_=rates)
    return brokers


def _named(move: Move, brokers: Iterable[int]) -> str:
    return ",".join(f"{move.partition.partition}:{broker}" for broker in sorted(brokers))


async def end_throttles(
    client: Client, topics: Iterable[str], brokers: Iterable[int]
) -> tuple[list[str], list[int]]:
    """Take the throttles of topics and brokers away; those that had one. ApiError."""
    freed_topics = [
        topic for topic in topics if await _taken_back(client, TOPIC_RESOURCE, topic, REPLICAS)
    ]
    freed_brokers = [
        broker
        for broker in brokers
        if await _taken_back(client, BROKER_RESOURCE, str(broker), RATES)
    ]
    return freed_topics, freed_brokers


async def _taken_back(client: Client, resource: int, name: str, keys: Sequence[str]) -> bool:
    entries = await describe_configs(client, resource, name, keys)
    own = [entry.name for entry in entries if entry.source in {"topic", "dynamic broker"}]
    if own:
        await alter_configs(client, resource, name, delete=own)
    return bool(own)
