"""What share groups' state is filed under."""

from typing import NamedTuple

from headrace.log.text_files import encode_uuid

NOT_SET = -1
"""A start offset that is not known yet."""


class ShareKey(NamedTuple):
    """One partition as one share group sees it."""

    group: str
    topic_id: bytes
    partition: int

    @property
    def coordinated_by(self) -> str:
        """What its partition of `__share_group_state` is hashed from (Kafka's coordinator key)."""
        return f"{self.group}:{encode_uuid(self.topic_id)}:{self.partition}"
