"""`ShareKey`: the key of a share partition's stored state."""

from typing import NamedTuple

from headrace.log.text_files import encode_uuid

NOT_SET = -1
"""A start offset that is not determined yet."""


class ShareKey(NamedTuple):
    """A share partition: a partition, by topic id and index, as consumed by one share group."""

    group: str
    topic_id: bytes
    partition: int

    @property
    def coordinated_by(self) -> str:
        """The text whose hash selects the partition of `__share_group_state` (as in Kafka)."""
        return f"{self.group}:{encode_uuid(self.topic_id)}:{self.partition}"
