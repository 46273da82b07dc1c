"""Events about which the controller decides."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from headrace.cluster.store.stored_topic import StoredTopic
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.replication.controller_calls import AskedIsr


class ElectionType(IntEnum):
    """Types of leader elections, numbered as in the protocol."""

    PREFERRED = 0
    UNCLEAN = 1


class TopicsCreated(NamedTuple):
    """Create planned topics."""

    topics: Sequence[StoredTopic]


class TopicsDeleted(NamedTuple):
    """Delete topics."""

    names: Sequence[str]
    marked: bool = False
    """Whether the store has the deletion already, written by a tool."""


class TopicsFound(NamedTuple):
    """A tool has written topics, or more partitions of topics, to the store."""

    topics: Sequence[StoredTopic]
    ids: Mapping[str, bytes]
    """Topic id for each topic that has none."""


class TopicGrown(NamedTuple):
    """Add partitions with replicas `added` to a topic of `present` partitions."""

    name: str
    present: int
    added: Sequence[tuple[BrokerId, ...]]


class BrokersJoined(NamedTuple):
    """Brokers have registered. The facts contain them."""

    brokers: Sequence[BrokerId]
    logs_made: bool = False
    """Whether missing logs are created: a broker with a metadata store of its own."""


class BrokersLeft(NamedTuple):
    """Brokers are no longer registered. The facts do not contain them."""

    brokers: Sequence[BrokerId]


class BrokerSuspected(NamedTuple):
    """A registered broker refuses connections: its process is dead, or the network deceives."""

    broker: BrokerId
    broker_epoch: int
    """Broker epoch of the registration whose address refuses connections."""


class ReplicasFailed(NamedTuple):
    """Replicas of a broker are offline, as their directory failed. The facts contain this."""

    broker: BrokerId
    partitions: Sequence[TopicPartition]


class ReplicasDamaged(NamedTuple):
    """A broker has found damaged batches in replicas. The facts contain this."""

    broker: BrokerId
    partitions: Sequence[TopicPartition]


class DirectoriesFailed(NamedTuple):
    """Log directories of live brokers have failed.

    Repeated orders will show which replicas failed.
    """

    brokers: Sequence[BrokerId]


class LeadersRestarted(NamedTuple):
    """Leaders have restarted since their election, and need a new leader epoch."""

    partitions: Sequence[TopicPartition]


class ShutdownAsked(NamedTuple):
    """A broker is in controlled shutdown. The facts contain this."""

    broker: BrokerId


class BrokersDrained(NamedTuple):
    """Brokers are drained for maintenance, or replicas that may lead in their place are back.

    The facts contain which brokers are.
    """


class ElectionAsked(NamedTuple):
    """A client requests leader elections."""

    kind: ElectionType
    partitions: Sequence[TopicPartition]


class ReassignmentAsked(NamedTuple):
    """Reassign a partition to replicas `target`; None: cancel the running reassignment."""

    partition: TopicPartition
    target: tuple[BrokerId, ...] | None


class ReassignmentAdvanced(NamedTuple):
    """Partitions under reassignment have a new ISR, so that a reassignment may be complete."""

    partitions: Sequence[TopicPartition]


class IsrAsked(NamedTuple):
    """A leader requests ISR changes (AlterPartition)."""

    broker: BrokerId
    broker_epoch: int
    asked: Sequence[AskedIsr]


Event = (
    TopicsCreated
    | TopicsDeleted
    | TopicsFound
    | TopicGrown
    | BrokersJoined
    | BrokersLeft
    | BrokerSuspected
    | ReplicasFailed
    | ReplicasDamaged
    | DirectoriesFailed
    | LeadersRestarted
    | ShutdownAsked
    | BrokersDrained
    | ElectionAsked
    | ReassignmentAsked
    | ReassignmentAdvanced
    | IsrAsked
)
