"""The integers and names everything else is written in.

Offset, file position, count, size and epoch are all `int`; only types and names keep them apart.
"""

import re
from typing import NamedTuple, NewType

from headrace.model.protocols import reserved_topics

Offset = NewType("Offset", int)
"""Place of a record in its partition, from 0. An *end* offset is exclusive."""

Position = NewType("Position", int)
"""Byte position in a file."""

LeaderEpoch = NewType("LeaderEpoch", int)
"""Counts the leaderships of a partition, from 0; -1 where none is known."""

BrokerId = NewType("BrokerId", int)

NO_EPOCH = LeaderEpoch(-1)
NO_PRODUCER_ID = -1

TOPIC_NAME_CHARS_MAX = 249
_TOPIC_NAME = re.compile(rf"[A-Za-z0-9._-]{{1,{TOPIC_NAME_CHARS_MAX}}}")

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
METADATA_TOPIC = "__cluster_metadata"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC})
"""Topics clients may read and never write: the coordinators keep their state there."""
STRAY_LOGS = "/-stray"
"""In place of a topic in DescribeLogDirs: asks for the directories of logs that were set aside. No
topic can have that name; Kafka's brokers and clients neither ask for it nor answer it."""


class TopicPartition(NamedTuple):
    """A partition by name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def counted(number: int, noun: str) -> str:
    """Return a count with its noun: `1 record`, `2 records`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def shown_as_internal(topic: str) -> bool:
    """Tell whether clients are told that a topic is internal: no pattern subscribes to it."""
    return topic in INTERNAL_TOPICS or reserved_topics(topic) is not None


def topic_name_problem(name: str) -> str | None:
    """Say why `name` cannot be a topic's name, or None where it can (Kafka's Topic.validate)."""
    if not name:
        return "the empty string is not allowed"
    if name in {".", ".."}:
        return "'.' and '..' are not allowed"
    if len(name) > TOPIC_NAME_CHARS_MAX:
        return f"longer than {TOPIC_NAME_CHARS_MAX} characters"
    if not _TOPIC_NAME.fullmatch(name):
        return "contains characters other than ASCII letters, digits, '.', '_' and '-'"
    return None
