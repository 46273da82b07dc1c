"""One broker: its partitions, its picture of the cluster, its periodic duties.

The facade that frontends hold. It decides nothing about topics (that is `cluster.Controller`): it
opens, serves and drops the partitions it is told to.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.broker.metadata import MetadataImage
from headrace.broker.partition import Partition
from headrace.broker.producer_ids import ProducerIds
from headrace.config.topic import LogConfig
from headrace.log.directory import LogDirectory
from headrace.model.nouns import BrokerId, LeaderEpoch
from headrace.world.clock import Clock, Random
from headrace.world.disk import Disk

if TYPE_CHECKING:
    from headrace.broker.groups.coordinators import GroupCoordinators
    from headrace.config.broker import BrokerConfig


class Broker:
    """What this process serves. All calls on the deciding thread."""

    config: "BrokerConfig"
    clock: Clock
    disk: Disk
    random: Random
    metrics: Any
    broker_id: BrokerId
    image: MetadataImage
    """The present picture of the cluster; replaced, never changed."""
    groups: "GroupCoordinators"
    """Set by the server's wiring once the coordinators exist."""
    producer_ids: ProducerIds
    directories: Sequence[LogDirectory]
    partitions: Mapping[tuple[str, int], Partition]

    def __init__(
        self,
        config: "BrokerConfig",
        *,
        clock: Clock,
        disk: Disk,
        random: Random,
        directories: Sequence[LogDirectory],
        cluster_id: str,
        metrics: Any = None,
    ) -> None:
        """Hold opened log directories; partitions come with `open_partition`."""

    def partition(self, topic: str, index: int) -> Partition:
        """The partition if this broker leads it.

        ApiError: UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR (its log directory failed).
        """
        raise NotImplementedError

    def partition_by_id(self, topic_id: bytes, index: int) -> Partition:
        """As `partition`, by the topic's 16-byte id. ApiError: UNKNOWN_TOPIC_ID, …"""
        raise NotImplementedError

    def open_partition(
        self,
        topic: str,
        index: int,
        topic_id: bytes,
        config: LogConfig,
        leader_epoch: LeaderEpoch,
    ) -> Partition:
        """Lead a partition, its log made new where no log directory holds it."""
        raise NotImplementedError

    def drop_partition(self, topic: str, index: int) -> None:
        """Stop serving a partition and delete its log (renamed now, removed later)."""

    def start(self) -> None:
        """Begin the periodic duties: retention, checkpoints, producer expiry."""

    def stop(self) -> None:
        """End the periodic duties and close all logs cleanly. Blocks: shutdown only."""
