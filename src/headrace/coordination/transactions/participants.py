"""The partitions of this broker as transactions see them."""

from typing import TYPE_CHECKING

from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import OFFSETS_TOPIC, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.broker.broker import Broker
    from headrace.broker.partition import Partition
    from headrace.coordination.groups.group_coordinators import GroupCoordinators


class LocalParticipants:
    """`markers.Participants`, for partitions that this broker leads: all there are."""

    def __init__(self, broker: "Broker", groups: "Callable[[], GroupCoordinators]") -> None:
        """`groups`: who is told of markers among offsets, made when first asked."""
        self._broker = broker
        self._groups = groups

    def find(self, partition: TopicPartition) -> "Partition | None":
        """Return the partition; None where its topic is gone.

        ApiError where it is not served now.
        """
        try:
            return self._broker.partition(*partition)
        except ApiError as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return None
            raise

    def marked(self, partition: TopicPartition, producer_id: int, *, committed: bool) -> None:
        """Tell the group coordinator of a marker among its offsets."""
        if partition.topic == OFFSETS_TOPIC:
            groups = self._groups()
            groups.end_transaction(partition.partition, producer_id, committed=committed)
