"""What the controller tells brokers to do with their replicas, however it reaches them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, Protocol

from headrace.broker.metadata_image import ImageDelta
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition


class Replication(NamedTuple):
    """Who holds a partition, as its state in the store says."""

    topic_partition: TopicPartition
    topic_id: bytes
    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    replicas: tuple[BrokerId, ...]
    partition_epoch: int
    """Version of the state's node: grows with each change of leader or ISR."""
    is_new: bool = False
    """Nobody has led it before: a missing log is made, not missed."""
    recovering: bool = False
    """Its leader, or one before, was elected uncleanly, and not all replicas have followed since:
    what a follower has committed may have to go."""
    adding: tuple[BrokerId, ...] = ()
    """Those of the replicas that a running reassignment adds."""


class Lead(NamedTuple):
    """Lead the partition."""

    replication: Replication


@dataclass(frozen=True, slots=True)
class Follow:
    """Hold a replica: of its leader, or of nobody's while there is none.

    A dataclass: a named tuple would equal a `Lead` of the same.
    """

    replication: Replication


class Stop(NamedTuple):
    """Hold the partition no longer."""

    topic_partition: TopicPartition
    topic_id: bytes
    leader_epoch: LeaderEpoch
    delete: bool
    """Whether the log goes too."""


Order = Lead | Follow | Stop


class Orders(NamedTuple):
    """One message of a controller to a broker."""

    controller_epoch: int
    broker_epoch: int
    """Of the registration it is meant for; -1: of whichever, from the same process."""
    orders: Sequence[Order] = ()
    delta: ImageDelta = ImageDelta()
    configs: Mapping[str, Mapping[str, str]] = MappingProxyType({})
    """Settings of topics that neither `delta` nor the broker's picture shows."""


Failed = dict[TopicPartition, ErrorCode]
"""What could not be carried out, by partition."""


class Late(Protocol):
    """Told what came of orders whose answer was not waited for any more."""

    def __call__(self, broker: BrokerId, orders: Orders, failed: Failed) -> None: ...


def unheard(broker: BrokerId, orders: Orders, failed: Failed) -> None:
    """Do nothing: nobody listens yet."""


class OrderTaker(Protocol):
    """A broker as its controller sees it."""

    async def take(self, orders: Orders) -> Mapping[TopicPartition, ErrorCode]:
        """Have the orders carried out; what could not be, by partition. ApiError: refused whole."""


def is_overtaken(refusal: ApiError) -> bool:
    """Return whether the departure or restart of a broker explains that orders are refused.

    The broker has gone, has registered again, or the controller is another: newer orders follow,
    and nothing needs to be done. A broker that cannot be ordered for another reason says which.
    """
    stale = {ErrorCode.STALE_BROKER_EPOCH, ErrorCode.STALE_CONTROLLER_EPOCH}
    gone = refusal.code is ErrorCode.BROKER_NOT_AVAILABLE and not refusal.message
    return gone or refusal.code in stale
