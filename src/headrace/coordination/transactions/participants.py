"""`LocalParticipants`: write transaction markers to partitions that this broker leads."""

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
    """The partitions that this broker leads, for markers. Implements `markers.Participants`."""

    def __init__(self, broker: "Broker", groups: "Callable[[], GroupCoordinators]") -> None:
        """Create the access; `groups`, made on first use, applies markers to committed offsets."""
        self._broker = broker
        self._groups = groups

    def exists(self, partition: TopicPartition) -> bool:
        """Return whether the partition exists, even if this broker cannot serve it now."""
        try:
            self._broker.partition(*partition)
        except ApiError as error:
            return error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return True

    def write(
        self, marker: "Marker", partitions: "Iterable[TopicPartition]", done: "MarkerWritten"
    ) -> None:
        """Append the marker to each partition.

        Call `done` for each once committed, or with an error.
        """
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
