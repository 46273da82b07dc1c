"""Markers that other brokers were asked to write: none waits for a broker that leads no longer.

A broker that is registered and does not answer is waited for as long as a request may take. Once
its partition is led by another, that one can be asked.
"""

from collections.abc import Callable, Mapping, Sequence

from headrace.broker.metadata_image import ImageDelta, MetadataImage
from headrace.coordination.transactions.markers import MarkerWritten
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, TopicPartition

Errors = Mapping[TopicPartition, ApiError | None]
"""What became of each partition."""


class _Asked:
    """One transaction's marker, for some partitions of one broker."""

    __slots__ = ("broker", "done", "missing")

    def __init__(
        self, broker: BrokerId, partitions: Sequence[TopicPartition], done: MarkerWritten
    ) -> None:
        self.broker = broker
        self.missing = dict.fromkeys(partitions)
        self.done = done

    def tell(self, partition: TopicPartition, error: ApiError | None) -> None:
        del self.missing[partition]
        self.done(partition, error)


class PendingMarkers:
    """Those that have no answer yet. On the deciding thread."""

    def __init__(self, image: MetadataImage) -> None:
        """`image` says who leads what."""
        self._image = image
        self._asked: dict[_Asked, None] = {}
        image.observers.append(self._image_changed)

    def close(self) -> None:
        """Observe the metadata image no longer."""
        self._image.observers.remove(self._image_changed)

    def add(
        self, broker: BrokerId, partitions: Sequence[TopicPartition], done: MarkerWritten
    ) -> Callable[[Errors], None]:
        """Note that `broker` is asked; returns who takes its answer.

        `done` is called once for each partition: with the answer, or with NETWORK_EXCEPTION as soon
        as the broker does not lead it: its marker may be written, or not.
        """
        asked = _Asked(broker, partitions, done)
        self._asked[asked] = None

        def answered(errors: Errors) -> None:
            self._asked.pop(asked, None)
            for partition in tuple(asked.missing):
                asked.tell(partition, errors[partition])

        return answered

    def _image_changed(self, delta: ImageDelta, structural: bool) -> None:
        names = {topic.name for topic in delta.topics} | {*delta.removed, *delta.partitions}
        for asked in tuple(self._asked) if names else ():
            for partition in tuple(asked.missing):
                if partition.topic in names and self._image.leader_of(partition) != asked.broker:
                    reason = f"broker {asked.broker} leads {partition} no longer"
                    asked.tell(partition, ApiError(ErrorCode.NETWORK_EXCEPTION, reason))
            if not asked.missing:
                self._asked.pop(asked, None)
