"""Progress of partition reassignments: how much of the leader's log each added replica has
copied."""

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
    """Copy progress of one replica that a reassignment adds. None in a field: a broker did not
    answer."""

    broker: int
    lag: int | None
    """How many offsets the added replica's log end is behind the leader's."""
    bytes: int | None
    """Size of the added replica's log on its broker."""
    leader_bytes: int | None

    @property
    def percent(self) -> int | None:
        """The copied share of the leader's log, by bytes; 100 only when the replica lacks no
        offset."""
        if self.bytes is None or self.leader_bytes is None:
            return None
        whole = 100 * self.bytes // self.leader_bytes if self.leader_bytes else 100
        return min(whole, 99 if self.lag else 100)


async def of_moves(
    client: "Client", moving: Sequence[Reassigning]
) -> dict[TopicPartition, list[Copy]]:
    """Return the copy progress of each reassignment's added replicas, in the order of `adding`."""
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
    except ApiError:  # The partition has no leader now, or was deleted.
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
