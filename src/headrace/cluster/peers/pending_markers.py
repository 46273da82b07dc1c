"""`PendingMarkers`: WriteTxnMarkers requests to other brokers that have no answer yet.

If the metadata image shows another leader for a partition, its marker ends at once with
NETWORK_EXCEPTION, so that the new leader can be asked. Without a change of leader, a broker that
does not answer is waited for until the request times out.
"""

from collections.abc import Callable, Mapping, Sequence

from headrace.broker.metadata_image import ImageDelta, MetadataImage
from headrace.coordination.transactions.markers import MarkerWritten
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, TopicPartition

Errors = Mapping[TopicPartition, ApiError | None]
"""For each partition None if its marker was written, or the error."""


class _Asked:
    """The marker of one transaction, requested of one broker for some of its partitions."""

    __slots__ = ("broker", "done", "missing")

    def __init__(
        self, broker: BrokerId, partitions: Sequence[TopicPartition], done: MarkerWritten
    ) -> None:
        self.broker = broker
        self.missing = dict.fromkeys(partitions)
        self.done = done

    def tell(self, partition: TopicPartition, error: ApiError | None) -> None:
        """Call `done` for one partition, which then has its outcome."""
        del self.missing[partition]
        self.done(partition, error)


class PendingMarkers:
    """The markers that were requested of other brokers and are unanswered.

    On the deciding thread.
    """

    def __init__(self, image: MetadataImage) -> None:
        """Begin to observe `image`, which has the leader of each partition."""
        self._image = image
        self._asked: dict[_Asked, None] = {}
        image.observers.append(self._image_changed)

    def close(self) -> None:
        """Stop observing the metadata image."""
        self._image.observers.remove(self._image_changed)

    def add(
        self, broker: BrokerId, partitions: Sequence[TopicPartition], done: MarkerWritten
    ) -> Callable[[Errors], None]:
        """Register markers requested of `broker`; return the callback for its answer.

        `done` is called once for each partition: with the answer, or with NETWORK_EXCEPTION as soon
        as another broker leads it. Then the marker may or may not have been written.
        """
        asked = _Asked(broker, partitions, done)
        self._asked[asked] = None

        def answered(errors: Errors) -> None:
            self._asked.pop(asked, None)
            for partition in tuple(asked.missing):
                asked.tell(partition, errors[partition])

        return answered

    def _image_changed(self, delta: ImageDelta, structural: bool) -> None:
        """End the markers of partitions that the asked broker no longer leads."""
        names = {topic.name for topic in delta.topics} | {*delta.removed, *delta.partitions}
        for asked in tuple(self._asked) if names else ():
            for partition in tuple(asked.missing):
                if partition.topic in names and self._image.leader_of(partition) != asked.broker:
                    reason = f"broker {asked.broker} leads {partition} no longer"
                    asked.tell(partition, ApiError(ErrorCode.NETWORK_EXCEPTION, reason))
            if not asked.missing:
                self._asked.pop(asked, None)
