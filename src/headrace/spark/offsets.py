"""What a streaming query's checkpoint and progress say of this source: one JSON object.

    {"headrace": {"bootstrap": "127.0.0.1:9092", "group": "orders",
                  "ids": {"orders": "2aR..."}, "added": {"orders": {"2": 0}}},
     "offsets": {"orders": {"0": 120, "1": 88, "2": 14}}}

`offsets` are exclusive ends, as a consumer group commits them. Bootstrap and group travel here
because the listener that commits them sees no options; topic ids, because a topic that was deleted
and made again starts over; `added`, because partitions that came with this batch must start at the
same offset when the batch is repeated.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.model.nouns import TopicPartition
from headrace.spark.errors import SourceError

MARK = "headrace"
Ends = dict[TopicPartition, int]


@dataclass(frozen=True)
class Position:
    """Where a query stands."""

    bootstrap: str
    offsets: Ends
    group: str = ""
    """Consumer group to show the offsets under; empty where nobody named one."""
    ids: Mapping[str, str] = field(default_factory=dict)
    added: Ends = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the same, in JSON's types, always in the same order: Spark compares the text."""
        about: dict[str, Any] = {"bootstrap": self.bootstrap}
        if self.group:
            about["group"] = self.group
        if self.ids:
            about["ids"] = dict(sorted(self.ids.items()))
        if self.added:
            about["added"] = nested(self.added)
        return {MARK: about, "offsets": nested(self.offsets)}

    @classmethod
    def of_json(cls, said: Mapping[str, Any]) -> "Position":
        """Read what `to_json` wrote; SourceError for another source's offsets."""
        try:
            about = said[MARK]
            return cls(
                bootstrap=str(about["bootstrap"]),
                offsets=flat(said["offsets"]),
                group=str(about.get("group", "")),
                ids=dict(about.get("ids", {})),
                added=flat(about.get("added", {})),
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            raise SourceError(f"the checkpoint holds no offsets of this source: {said!r}") from None


def nested(ends: Ends) -> dict[str, dict[str, int]]:
    """Return {"orders": {"0": 12}}, sorted by topic and partition."""
    by_topic: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(ends.items()):
        by_topic.setdefault(topic, {})[str(partition)] = offset
    return by_topic


def flat(said: Mapping[str, Mapping[str, int]]) -> Ends:
    """Return the reverse of `nested`."""
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, numbers in said.items()
        for partition, offset in numbers.items()
    }


def topics_of(partitions: Iterable[TopicPartition]) -> list[str]:
    """Return their topics, each once, sorted."""
    return sorted({partition.topic for partition in partitions})
