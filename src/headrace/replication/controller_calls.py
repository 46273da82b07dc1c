"""`ControllerCalls`: a leader's requests to the cluster's controller, local or remote."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from headrace.model.errors import ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition


class AskedIsr(NamedTuple):
    """An ISR that a leader requests, with the state of the partition that it knows."""

    topic_partition: TopicPartition
    leader_epoch: LeaderEpoch
    partition_epoch: int
    isr: tuple[BrokerId, ...]
    epochs: tuple[int, ...] = ()
    """Broker epochs of the members, -1 if unknown; empty: all unknown."""


class IsrAnswer(NamedTuple):
    """A partition's state as the controller has written it."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    partition_epoch: int


class ControllerCalls(Protocol):
    """The controller as leaders reach it, on this or another broker."""

    async def alter_partitions(
        self, asked: Sequence[AskedIsr]
    ) -> Mapping[TopicPartition, IsrAnswer | ErrorCode]:
        """Request ISR changes; return for each partition its state now, or the error code.

        ApiError and `ClientError`: no answer came. Each change may or may not have been written,
        and the union of old and new ISR stays in force. So it is requested once: the refusal of a
        second attempt would not tell whether the first is still carried out.
        """
