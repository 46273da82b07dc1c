"""The partitions of this broker as transactions see them."""

from typing import TYPE_CHECKING

from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import OFFSETS_TOPIC, TopicPartition

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.partition import Partition


class LocalParticipants:
    """`markers.Participants`, for partitions that this broker leads: all there are."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    def find(self, partition: TopicPartition) -> "Partition | None":
        """The partition; None where its topic is gone. ApiError where it is not served now."""
        try:
            return self._broker.partition(*partition)
        except ApiError as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return None
            raise

    def marked(self, partition: TopicPartition, producer_id: int, *, committed: bool) -> None:
        """Tell the group coordinator of a marker among its offsets."""
        if partition.topic == OFFSETS_TOPIC:
            groups = self._broker.groups
            groups.end_transaction(partition.partition, producer_id, committed=committed)
