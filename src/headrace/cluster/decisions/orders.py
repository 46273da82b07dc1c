"""Orders of the controller to brokers about their replicas, and the `OrderTaker` interface."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, Protocol

from headrace.broker.metadata_image import ImageDelta
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition


class Replication(NamedTuple):
    """A partition's replicas, leader and ISR, as its state in the store has them."""

    topic_partition: TopicPartition
    topic_id: bytes
    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    replicas: tuple[BrokerId, ...]
    partition_epoch: int
    """Version of the state's node: grows with each change of leader or ISR."""
    is_new: bool = False
    """Whether the partition was never led, so that a missing log is created."""
    recovering: bool = False
    """Whether a leader was elected uncleanly and not all replicas have followed it since: a
    follower may have to truncate committed records."""
    adding: tuple[BrokerId, ...] = ()
    """Replicas that a running reassignment adds."""


class Lead(NamedTuple):
    """An order to lead the partition."""

    replication: Replication


@dataclass(frozen=True, slots=True)
class Follow:
    """An order to hold a replica and to follow its leader, if there is one.

    A dataclass, as a named tuple would equal a `Lead` of the same content.
    """

    replication: Replication


class Stop(NamedTuple):
    """An order to stop a replica."""

    topic_partition: TopicPartition
    topic_id: bytes
    leader_epoch: LeaderEpoch
    delete: bool
    """Whether to delete the log."""


Order = Lead | Follow | Stop


class Orders(NamedTuple):
    """A message of the controller to a broker: orders, and a delta of the metadata image."""

    controller_epoch: int
    broker_epoch: int
    """Broker epoch of the registration that it is for; -1: any, from the same process."""
    orders: Sequence[Order] = ()
    delta: ImageDelta = ImageDelta()
    configs: Mapping[str, Mapping[str, str]] = MappingProxyType({})
    """Settings of topics that neither `delta` nor the broker's metadata image has."""


Failed = dict[TopicPartition, ErrorCode]
"""Error code of each partition whose order could not be carried out."""


class Late(Protocol):
    """Called with the outcome of orders that the controller no longer waited for."""

    def __call__(self, broker: BrokerId, orders: Orders, failed: Failed) -> None: ...


def unheard(broker: BrokerId, orders: Orders, failed: Failed) -> None:
    """Do nothing: the default of `Late`."""


class OrderTaker(Protocol):
    """A broker as its controller sends orders to it."""

    async def take(self, orders: Orders) -> Mapping[TopicPartition, ErrorCode]:
        """Carry out the orders; return the failed partitions. ApiError: all orders are refused."""


def is_overtaken(refusal: ApiError) -> bool:
    """Return whether a stop or restart of the broker explains that it refused orders.

    The broker has stopped or registered again, or another controller was elected: newer orders
    follow.
    """
    stale = {ErrorCode.STALE_BROKER_EPOCH, ErrorCode.STALE_CONTROLLER_EPOCH}
    gone = refusal.code is ErrorCode.BROKER_NOT_AVAILABLE and not refusal.message
    return gone or refusal.code in stale
