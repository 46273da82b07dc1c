"""What happens to a cluster, and the controller has to decide about."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from headrace.cluster.store.stored_topic import StoredTopic
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.replication.controller_calls import AskedIsr


class ElectionType(IntEnum):
    """Who may be elected, with the protocol's numbers."""

    PREFERRED = 0
    UNCLEAN = 1


class TopicsCreated(NamedTuple):
    """Planned topics are to be."""

    topics: Sequence[StoredTopic]


class TopicsDeleted(NamedTuple):
    """Topics are to go."""

    names: Sequence[str]
    marked: bool = False
    """Whether the store says so already: a tool wrote it."""


class TopicsFound(NamedTuple):
    """Topics are in the store that a tool made, or gave more partitions."""

    topics: Sequence[StoredTopic]
    ids: Mapping[str, bytes]
    """By name: for those that have none."""


class TopicGrown(NamedTuple):
    """A topic of `present` partitions is to have more; `added` are their replicas."""

    name: str
    present: int
    added: Sequence[tuple[BrokerId, ...]]


class BrokersJoined(NamedTuple):
    """Brokers are alive that were not. The facts say so already."""

    brokers: Sequence[BrokerId]
    logs_made: bool = False
    """Whether a missing log is made: nobody else uses the store, its word is all there is."""


class BrokersLeft(NamedTuple):
    """Brokers are alive no longer. The facts say so already."""

    brokers: Sequence[BrokerId]


class ReplicasFailed(NamedTuple):
    """A broker cannot serve replicas: their directory failed. The facts say so already."""

    broker: BrokerId
    partitions: Sequence[TopicPartition]


class ReplicasDamaged(NamedTuple):
    """A broker has met damaged batches in replicas. The facts say so already."""

    broker: BrokerId
    partitions: Sequence[TopicPartition]


class DirectoriesFailed(NamedTuple):
    """Log directories of brokers that go on have failed: their answers to orders will say which."""

    brokers: Sequence[BrokerId]


class LeadersRestarted(NamedTuple):
    """Leaders of partitions are other processes than were elected: they begin another epoch."""

    partitions: Sequence[TopicPartition]


class ShutdownAsked(NamedTuple):
    """A broker is about to leave, and hands over what it leads. The facts say so already."""

    broker: BrokerId


class ElectionAsked(NamedTuple):
    """Somebody wants leaders elected."""

    kind: ElectionType
    partitions: Sequence[TopicPartition]


class ReassignmentAsked(NamedTuple):
    """A partition is to be held by these replicas; None: a running reassignment is called off."""

    partition: TopicPartition
    target: tuple[BrokerId, ...] | None


class ReassignmentAdvanced(NamedTuple):
    """Partitions on their way to other replicas have another ISR: some may have arrived."""

    partitions: Sequence[TopicPartition]


class IsrAsked(NamedTuple):
    """A leader asks for other ISRs (AlterPartition)."""

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
    | ReplicasFailed
    | ReplicasDamaged
    | DirectoriesFailed
    | LeadersRestarted
    | ShutdownAsked
    | ElectionAsked
    | ReassignmentAsked
    | ReassignmentAdvanced
    | IsrAsked
)
