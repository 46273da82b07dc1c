"""The partition leader in tagged fields of hot responses (KIP-951)."""

from collections.abc import Sequence
from typing import NamedTuple

from headrace.wire.kafka.reader import Reader
from headrace.wire.kafka.writer import CompactWriter


class CurrentLeader(NamedTuple):
    """The current leader of a partition and its epoch; -1 if unknown."""

    leader_id: int = -1
    leader_epoch: int = -1


NO_LEADER = CurrentLeader()


class NodeEndpoint(NamedTuple):
    """Address of a broker that leads a partition which the client requested from another broker."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


def encode_leader(leader: CurrentLeader) -> bytes:
    """Encode the tagged field with the current leader."""
    writer = CompactWriter()
    writer.int32(leader.leader_id)
    writer.int32(leader.leader_epoch)
    writer.tags()
    return bytes(writer.out)


def decode_leader(reader: Reader) -> CurrentLeader:
    """Decode a CurrentLeader (broker id and leader epoch) from the reader of its tagged field."""
    return CurrentLeader(reader.int32(), reader.int32())


def encode_endpoints(endpoints: Sequence[NodeEndpoint]) -> bytes:
    """Encode the tagged field with leaders' addresses."""
    writer = CompactWriter()
    writer.count(len(endpoints))
    for endpoint in endpoints:
        writer.int32(endpoint.node_id)
        writer.string(endpoint.host)
        writer.int32(endpoint.port)
        writer.nullable_string(endpoint.rack)
        writer.tags()
    return bytes(writer.out)


def decode_endpoints(reader: Reader) -> list[NodeEndpoint]:
    """Decode leaders' addresses from a tagged field's reader."""
    endpoints = []
    for _ in range(reader.count(11)):
        endpoints.append(
            NodeEndpoint(reader.int32(), reader.string(), reader.int32(), reader.nullable_string())
        )
        reader.skip_tags()
    return endpoints
