"""Code shared by ShareFetch and ShareAcknowledge: acknowledgement batches, leaders."""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from headrace.wire.kafka.hot.common import CurrentLeader, NodeEndpoint
from headrace.wire.kafka.reader import Reader
from headrace.wire.kafka.writer import CompactWriter, Writer

RENEW_FROM = 2
"""First version with lock renewals (KIP-1222)."""
_RANGE = struct.Struct(">qq")
_LEADER = struct.Struct(">iix")


class AckBatch(NamedTuple):
    """Acknowledgement of the offsets `first` to `last`, inclusive: one kind for all, or one per
    offset."""

    first: int
    last: int
    kinds: Sequence[int]


class AskedPartition(NamedTuple):
    """A partition in a share request, with its acknowledgements."""

    partition: int
    acks: Sequence[AckBatch] = ()


class AskedTopic(NamedTuple):
    topic_id: bytes
    partitions: Sequence[AskedPartition]


def read_topics(reader: Reader) -> list[AskedTopic]:
    """Decode the topics of a share request."""
    topics = []
    for _ in range(reader.count(18)):
        topic_id = bytes(reader.uuid())
        partitions = []
        for _ in range(reader.count(6)):
            index = reader.int32()
            acks = [_read_ack(reader) for _ in range(reader.count(18))]
            reader.skip_tags()
            partitions.append(AskedPartition(index, acks))
        reader.skip_tags()
        topics.append(AskedTopic(topic_id, partitions))
    return topics


def _read_ack(reader: Reader) -> AckBatch:
    first, last = reader.unpack(_RANGE)
    count = reader.count(1)
    kinds = memoryview(reader.raw(count)).cast("b").tolist()
    reader.skip_tags()
    return AckBatch(first, last, kinds)


def write_topics(writer: Writer, topics: Sequence[AskedTopic]) -> None:
    """Encode the topics of a share request."""
    writer.count(len(topics))
    for topic in topics:
        writer.uuid(topic.topic_id)
        writer.count(len(topic.partitions))
        for partition in topic.partitions:
            writer.int32(partition.partition)
            writer.count(len(partition.acks))
            for ack in partition.acks:
                writer.raw(_RANGE.pack(ack.first, ack.last))
                writer.count(len(ack.kinds))
                writer.raw(struct.pack(f"{len(ack.kinds)}b", *ack.kinds))
                writer.tags()
            writer.tags()
        writer.tags()


def leader_bytes(leader: CurrentLeader) -> bytes:
    """Encode the current leader as a struct, not as a tagged field."""
    return _LEADER.pack(*leader)


def read_leader(reader: Reader) -> CurrentLeader:
    """Decode the current leader."""
    leader = CurrentLeader(reader.int32(), reader.int32())
    reader.skip_tags()
    return leader


def endpoint_bytes(endpoints: Sequence[NodeEndpoint]) -> bytes:
    """Encode the addresses of leaders."""
    writer = CompactWriter()
    writer.count(len(endpoints))
    for endpoint in endpoints:
        writer.int32(endpoint.node_id)
        writer.string(endpoint.host)
        writer.int32(endpoint.port)
        writer.nullable_string(endpoint.rack)
        writer.tags()
    return bytes(writer.out)
