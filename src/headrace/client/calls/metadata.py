"""Cluster metadata as a client uses it: brokers, topics, partition leaders."""

from collections.abc import Sequence
from typing import NamedTuple

from headrace.client.calls.call import HotCall, check
from headrace.client.transport.port import Address
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition, topic_name_problem
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.hot import metadata as codec


class PartitionMetadata(NamedTuple):
    """A partition's metadata: leader, leader epoch, replicas and ISR."""

    partition: int
    leader: int
    """Broker id of the leader; -1 if the partition has none."""
    leader_epoch: int
    replicas: Sequence[int]
    isr: Sequence[int]
    offline: Sequence[int]
    error_code: int = 0


class TopicMetadata(NamedTuple):
    """A topic's metadata; `partitions` in the order of their numbers."""

    name: str
    topic_id: bytes
    internal: bool
    partitions: Sequence[PartitionMetadata]
    error_code: int = 0


class Metadata(NamedTuple):
    """A snapshot of the cluster: id, controller, brokers with racks, topics."""

    cluster_id: str | None
    controller_id: int
    brokers: dict[int, Address]
    racks: dict[int, str | None]
    topics: dict[str, TopicMetadata]

    @classmethod
    def of(cls, response: codec.MetadataResponse) -> "Metadata":
        """Convert a Metadata response; topics without a name are left out."""
        check(response.error_code)
        topics = {}
        for topic in response.topics:
            if topic.name is None:
                continue
            partitions = sorted(
                PartitionMetadata(
                    partition.partition,
                    partition.leader_id,
                    partition.leader_epoch,
                    partition.replicas,
                    partition.isr,
                    partition.offline,
                    partition.error_code,
                )
                for partition in topic.partitions
            )
            topics[topic.name] = TopicMetadata(
                topic.name, topic.topic_id, topic.is_internal, partitions, topic.error_code
            )
        return cls(
            response.cluster_id,
            response.controller_id,
            {broker.node_id: Address(broker.host, broker.port) for broker in response.brokers},
            {broker.node_id: broker.rack for broker in response.brokers},
            topics,
        )

    def check(self, topic: str) -> TopicMetadata:
        """Return the topic if each of its partitions has a leader; else ApiError says why not."""
        found = self.topics.get(topic)
        if found is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic}")
        problem = topic_name_problem(topic)
        check(found.error_code, f"topic {topic}" + (f": {problem}" if problem else ""))
        for partition in found.partitions:
            if partition.leader not in self.brokers:
                raise ApiError(
                    ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{partition.partition} has no leader"
                )
        if not found.partitions:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"topic {topic} has no partitions yet")
        return found

    def has(self, wanted: TopicPartition) -> bool:
        """Return whether the partition exists and its topic has no error."""
        topic = self.topics.get(wanted.topic)
        return (
            topic is not None
            and not topic.error_code
            and any(partition.partition == wanted.partition for partition in topic.partitions)
        )

    def leader(self, topic: str, partition: int) -> int:
        """Return the broker id of a partition's leader; ApiError if it has none or does not
        exist."""
        found = self.topics.get(topic)
        for metadata in found.partitions if found else ():
            if metadata.partition == partition:
                if metadata.leader not in self.brokers:
                    raise ApiError(
                        ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{partition} has no leader"
                    )
                return metadata.leader
        raise ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic}-{partition}"
        )


def metadata_call(
    topics: Sequence[str] | None, *, create: bool
) -> HotCall[codec.MetadataRequest, codec.MetadataResponse]:
    """Build a Metadata request for `topics` (None: all); `create`: auto-create missing ones."""
    wanted = None if topics is None else [codec.TopicRequest(name) for name in topics]
    request = codec.MetadataRequest(wanted, allow_auto_topic_creation=create)
    return HotCall(
        ApiKey.METADATA, codec.encode_request, codec.decode_response, request, versions=(4, 13)
    )
