"""Replication throttles for reassignments, set as kafka-reassign-partitions.sh does (KIP-73)."""

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
"""The broker settings that limit throttled replication, in bytes a second."""
REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
"""The topic settings that list throttled replicas, in the order of `RATES`."""


class Move(NamedTuple):
    """A partition's replicas that are copied, from which brokers to which."""

    partition: TopicPartition
    sources: frozenset[int]
    targets: frozenset[int]


def moves_of(
    known: Metadata,
    wanted: Mapping[TopicPartition, Sequence[int] | None],
    moving: Iterable[Reassigning],
) -> list[Move]:
    """Return the running reassignments merged with the `wanted` ones: a throttle covers both."""
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
    """Throttle the copying of `moves` to `bytes_per_second`; return the brokers that were set.

    Topics are set first: on brokers with an older rate the throttle holds from the first byte.
    Raises ApiError.
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
    """Remove the replication throttles of topics and brokers. Raises ApiError.

    Returns the topics and the brokers that had a throttle.
    """
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
