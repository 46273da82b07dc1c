"""Progress of the replicas that running reassignments add."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from headrace.client.admin import replicas
from headrace.client.admin.replicas import Reassigning, ReplicaLog
from headrace.client.calls.metadata import Metadata
from headrace.client.standing import replica_ends
from headrace.client.transport.port import ClientError
from headrace.model.errors import ApiError
from headrace.model.nouns import TopicPartition

if TYPE_CHECKING:
    from headrace.client.client import Client

Logs = Mapping[int, Mapping[TopicPartition, ReplicaLog]]


class Copy(NamedTuple):
    """The progress of a replica that is being added. None: its broker or the leader is silent."""

    broker: int
    lag: int | None
    """How many offsets it ends before its leader."""
    bytes: int | None
    """On its broker's disk."""
    leader_bytes: int | None

    @property
    def percent(self) -> int | None:
        """How much of the leader's log it has, in bytes; 100 only where it lacks no offset."""
        if self.bytes is None or self.leader_bytes is None:
            return None
        whole = 100 * self.bytes // self.leader_bytes if self.leader_bytes else 100
        return min(whole, 99 if self.lag else 100)


async def of_moves(
    client: "Client", moving: Sequence[Reassigning]
) -> dict[TopicPartition, list[Copy]]:
    """Return how far each move's added replicas are, in the order of the brokers it adds."""
    if not moving:
        return {}
    topics = sorted({move.partition.topic for move in moving})
    known = await client.metadata(topics)
    ends = await replica_ends(client, known, topics)
    logs: dict[int, Mapping[TopicPartition, ReplicaLog]] = {}
    for broker in sorted(ends):
        with suppress(ClientError, ApiError):
            logs[broker] = await replicas.log_dirs(client, broker)
    found = {}
    for move in moving:
        leader = _leader(known, move.partition)
        found[move.partition] = [
            _copy(move.partition, leader, broker, ends, logs) for broker in move.adding
        ]
    return found


def _leader(known: Metadata, partition: TopicPartition) -> int:
    try:
        return known.leader(*partition)
    except ApiError:  # it has no leader now, or has been deleted
        return -1


def _copy(
    key: TopicPartition,
    leader: int,
    broker: int,
    ends: Mapping[int, Mapping[TopicPartition, int]],
    logs: Logs,
) -> Copy:
    end, led = ends.get(broker, {}).get(key), ends.get(leader, {}).get(key)
    own, whole = logs.get(broker, {}).get(key), logs.get(leader, {}).get(key)
    return Copy(
        broker,
        None if end is None or led is None else max(led - end, 0),
        None if own is None else own.size,
        None if whole is None else whole.size,
    )
