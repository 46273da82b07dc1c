"""What happens to a cluster, and the controller has to decide about."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from headrace.cluster.stored_topic import StoredTopic
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.replication.controller_calls import AskedIsr


class ElectionType(IntEnum):
    """Who may be elected, with the protocol's numbers."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True)
class TopicsCreated:
    """Planned topics are to be."""

    topics: Sequence[StoredTopic]


@dataclass(frozen=True, slots=True)
class TopicsDeleted:
    """Topics are to go."""

    names: Sequence[str]


@dataclass(frozen=True, slots=True)
class TopicGrown:
    """A topic of `present` partitions is to have more; `added` are their replicas."""

    name: str
    present: int
    added: Sequence[tuple[BrokerId, ...]]


@dataclass(frozen=True, slots=True)
class BrokersJoined:
    """Brokers are alive that were not. The facts say so already."""

    brokers: Sequence[BrokerId]
    logs_made: bool = False
    """Whether a missing log is made: nobody else uses the store, its word is all there is."""


@dataclass(frozen=True, slots=True)
class BrokersLeft:
    """Brokers are alive no longer. The facts say so already."""

    brokers: Sequence[BrokerId]


@dataclass(frozen=True, slots=True)
class ReplicasFailed:
    """A broker cannot serve replicas: their directory failed. The facts say so already."""

    broker: BrokerId
    partitions: Sequence[TopicPartition]


@dataclass(frozen=True, slots=True)
class ShutdownAsked:
    """A broker is about to leave, and hands over what it leads. The facts say so already."""

    broker: BrokerId


@dataclass(frozen=True, slots=True)
class ElectionAsked:
    """Somebody wants leaders elected."""

    kind: ElectionType
    partitions: Sequence[TopicPartition]


@dataclass(frozen=True, slots=True)
class ReassignmentAsked:
    """A partition is to be held by these replicas; None: a running reassignment is called off."""

    partition: TopicPartition
    target: tuple[BrokerId, ...] | None


@dataclass(frozen=True, slots=True)
class ReassignmentAdvanced:
    """Partitions on their way to other replicas have another ISR: some may have arrived."""

    partitions: Sequence[TopicPartition]


@dataclass(frozen=True, slots=True)
class IsrAsked:
    """A leader asks for other ISRs (AlterPartition)."""

    broker: BrokerId
    broker_epoch: int
    asked: Sequence[AskedIsr]


Event = (
    TopicsCreated
    | TopicsDeleted
    | TopicGrown
    | BrokersJoined
    | BrokersLeft
    | ReplicasFailed
    | ShutdownAsked
    | ElectionAsked
    | ReassignmentAsked
    | ReassignmentAdvanced
    | IsrAsked
)
