"""The partitions of this broker as those who end transactions see them."""

from functools import partial
from typing import TYPE_CHECKING

from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import OFFSETS_TOPIC, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.broker.broker import Broker
    from headrace.coordination.groups.group_coordinators import GroupCoordinators
    from headrace.coordination.transactions.markers import Marker, MarkerWritten


class LocalParticipants:
    """`markers.Participants`, for partitions that this broker leads."""

    def __init__(self, broker: "Broker", groups: "Callable[[], GroupCoordinators]") -> None:
        """`groups`: who is told of markers among offsets, made when first asked."""
        self._broker = broker
        self._groups = groups

    def exists(self, partition: TopicPartition) -> bool:
        """Tell whether the partition is there, served now or not."""
        try:
            self._broker.partition(*partition)
        except ApiError as error:
            return error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return True

    def write(
        self, marker: "Marker", partitions: "Iterable[TopicPartition]", done: "MarkerWritten"
    ) -> None:
        """Append the marker to each of them; `done` with each once it is committed, or why not."""
        producer_id, epoch, commit, coordinator_epoch = marker
        now_ms = self._broker.clock.wall_ms()
        for key in partitions:
            try:
                partition = self._broker.partition(*key)
                appended = partition.append_marker(
                    producer_id,
                    epoch,
                    commit=commit,
                    coordinator_epoch=coordinator_epoch,
                    now_ms=now_ms,
                )
            except ApiError as error:
                done(key, error)
            else:
                committed = partial(self._committed, marker, key, done)
                partition.when_committed(
                    appended.commit_offset, committed, while_enough_replicas=True
                )

    def _committed(
        self,
        marker: "Marker",
        partition: TopicPartition,
        done: "MarkerWritten",
        error: ApiError | None,
    ) -> None:
        if error is None and partition.topic == OFFSETS_TOPIC:
            groups = self._groups()
            groups.end_transaction(partition.partition, marker.producer_id, committed=marker.commit)
        done(partition, error)
