"""Partitions of topics as the targets of held messages."""

import struct

from headrace.held.held_records import HeldMessage, StoredMessage
from headrace.model.nouns import TopicPartition

HeldTopicMessage = HeldMessage[TopicPartition]
StoredTopicMessage = StoredMessage[TopicPartition]
_PARTITION = struct.Struct(">i")


class TopicTargets:
    """Targets as records name them: partition, i32 | topic. Implements `held_records.Targets`."""

    def encode(self, target: TopicPartition) -> bytes:
        """Return the name of a partition in a record."""
        topic, partition = target
        return _PARTITION.pack(partition) + topic.encode()

    def decode(self, encoded: bytes) -> TopicPartition:
        """Return the partition of a record. Raises ValueError."""
        try:
            (partition,) = _PARTITION.unpack_from(encoded)
        except struct.error as error:
            raise ValueError(str(error)) from None
        return TopicPartition(encoded[_PARTITION.size :].decode(), partition)
