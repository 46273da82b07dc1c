"""Basic integer and name types.

Offset, file position, count, size and epoch are all `int` at run time; type checkers and names tell
them apart.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple, NewType

from headrace.model.protocols import reserved_topics

Offset = NewType("Offset", int)
"""Position of a record in its partition, from 0. An *end* offset is exclusive."""

Position = NewType("Position", int)
"""Byte position in a file."""

LeaderEpoch = NewType("LeaderEpoch", int)
"""Number of leader changes of a partition, from 0; -1 if unknown."""

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
"""Topics that clients may read but not write: coordinators store their state in them."""
STRAY_LOGS = "/-stray"
"""Requested instead of a topic name in DescribeLogDirs to list `-stray` directories.

An invalid topic name, so Kafka's brokers and clients never use it.
"""


class TopicPartition(NamedTuple):
    """A partition, identified by topic name and number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the numbers of partitions by topic, topics and numbers in the order given."""
    found: dict[str, list[int]] = {}
    for topic, number in partitions:
        found.setdefault(topic, []).append(number)
    return found


def counted(number: int, noun: str) -> str:
    """Return a count with its noun: `1 record`, `2 records`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def shown_as_internal(topic: str) -> bool:
    """Return whether clients see the topic as internal, so that no pattern subscribes to it."""
    return topic in INTERNAL_TOPICS or reserved_topics(topic) is not None


def topic_name_problem(name: str) -> str | None:
    """Return why `name` is an invalid topic name, or None if it is valid (Kafka's
    Topic.validate)."""
    if not name:
        return "the empty string is not allowed"
    if name in {".", ".."}:
        return "'.' and '..' are not allowed"
    if len(name) > TOPIC_NAME_CHARS_MAX:
        return f"longer than {TOPIC_NAME_CHARS_MAX} characters"
    if not _TOPIC_NAME.fullmatch(name):
        return "contains characters other than ASCII letters, digits, '.', '_' and '-'"
    return None
