"""What a partition's leader asks the cluster's controller for, wherever that is."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from headrace.model.errors import ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition


class AskedIsr(NamedTuple):
    """The ISR that a leader wants, and what it believes the partition's state to be."""

    topic_partition: TopicPartition
    leader_epoch: LeaderEpoch
    partition_epoch: int
    isr: tuple[BrokerId, ...]
    epochs: tuple[int, ...] = ()
    """Of the members' registrations, -1 where not known; empty: of none is it known."""


class IsrAnswer(NamedTuple):
    """A partition's state as the controller has written it."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    partition_epoch: int


class ControllerCalls(Protocol):
    """The controller as a leader can reach it."""

    async def alter_partitions(
        self, asked: Sequence[AskedIsr]
    ) -> Mapping[TopicPartition, IsrAnswer | ErrorCode]:
        """Ask for other ISRs; what holds of each partition now, or why nothing was done about it.

        ApiError and `ClientError`: no answer came. Each change may have been written or not, and
        the union of the old and the new ISR stays in force. So it is asked once: a refusal that
        comes to a second attempt says nothing of the first, which may yet be carried out.
        """
