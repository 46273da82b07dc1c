"""The source's offsets in a streaming query's checkpoint and progress: one JSON object.

    {"headrace": {"bootstrap": "127.0.0.1:9092", "cluster": "Zk3...", "group": "orders",
                  "ids": {"orders": "2aR..."}, "added": {"orders": {"2": 0}},
                  "parts": {"orders": {"0": 4}}, "skipped": {"orders": {"1": [40, 88]}}},
     "offsets": {"orders": {"0": 120, "1": 88, "2": 14}}}

`offsets` are exclusive ends, as consumer groups commit them. The rest must be unchanged when the
batch that ends here is repeated, or be known at the next start:

* `bootstrap` and `group`: the listener that commits the offsets sees no options. For the same
  reason `configFile`, and `"told": true` if secrets are in options, which must not be stored here:
  then the source itself commits the offsets.
* `cluster` and `ids` (topic ids): a checkpoint of another cluster is refused, and a topic that was
  deleted and recreated starts over.
* `added`: first offsets of partitions that do not continue at the previous batch's end: new ones,
  those of a recreated topic, and those with a `skipped` range.
* `first`: the offsets at which the query began, of a source that reads replayed records. They tell
  which records of an earlier query this one has read by itself.
* `parts`: into how many tasks a partition's range is split, if more than one. If `parts` is
  missing, as in older releases, the current options split it.
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from headrace.model.nouns import TopicPartition
from headrace.spark.errors import SourceError

MARK = "headrace"
Ends = dict[TopicPartition, int]
Skipped = dict[TopicPartition, tuple[int, int]]
"""Ranges of offsets by partition, the end exclusive."""
T = TypeVar("T")
_ID_BYTES = 16
_SHOWN_CHARACTERS = 200


@dataclass(frozen=True)
class Position:
    """A streaming query's position: the source's offsets in its checkpoint."""

    bootstrap: str
    offsets: Ends
    group: str = ""
    """Consumer group for the offsets; empty if the options name none."""
    ids: Mapping[str, str] = field(default_factory=dict)
    added: Ends = field(default_factory=dict)
    cluster: str = ""
    """The cluster's id; empty in offsets of an older release."""
    parts: Ends | None = None
    """Number of tasks by partition in the batch that ends here, if more than one; None: not
    stored."""
    skipped: Skipped = field(default_factory=dict)
    config_file: str = ""
    """The option `configFile`; empty if not set."""
    told_by_source: bool = False
    """Whether the source commits the offsets itself, as a listener could not authenticate."""
    first: Ends = field(default_factory=dict)
    """Offsets at which the query began; empty: not stored."""
    earliest: bool = False
    """Whether this is a first position at `earliest`, so that records deleted since are no loss."""

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON types, always in the same order, as Spark compares the text."""
        about: dict[str, Any] = {"bootstrap": self.bootstrap}
        if self.cluster:
            about["cluster"] = self.cluster
        if self.group:
            about["group"] = self.group
        if self.ids:
            about["ids"] = dict(sorted(self.ids.items()))
        if self.added:
            about["added"] = nested(self.added)
        if self.parts is not None:
            about["parts"] = nested(self.parts)
        if self.skipped:
            about["skipped"] = nested({at: list(span) for at, span in self.skipped.items()})
        if self.config_file:
            about["configFile"] = self.config_file
        if self.told_by_source:
            about["told"] = True
        if self.first:
            about["first"] = nested(self.first)
        if self.earliest:
            about["earliest"] = True
        return {MARK: about, "offsets": nested(self.offsets)}

    @classmethod
    def of_json(cls, said: Mapping[str, Any]) -> "Position":
        """Convert the output of `to_json`, also of older releases; SourceError for another
        source's."""
        try:
            about = said[MARK]
            parts = about.get("parts")
            skipped = _flat(about.get("skipped", {}))
            return cls(
                bootstrap=str(about["bootstrap"]),
                offsets=flat(said["offsets"]),
                group=str(about.get("group", "")),
                ids=dict(about.get("ids", {})),
                added=flat(about.get("added", {})),
                cluster=str(about.get("cluster", "")),
                parts=None if parts is None else flat(parts),
                skipped={at: (int(begin), int(end)) for at, (begin, end) in skipped.items()},
                config_file=str(about.get("configFile", "")),
                told_by_source=bool(about.get("told", False)),
                first=flat(about.get("first", {})),
                earliest=bool(about.get("earliest", False)),
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            shown = str(said)[:_SHOWN_CHARACTERS]
            raise SourceError(
                f"the checkpoint holds no offsets of this source: {shown}; give the query a new "
                "checkpointLocation, and startingOffsets to go on where another source stopped"
            ) from None


def starting_offsets(ends: Sequence[str]) -> str:
    """Return the option `startingOffsets` that continues after a batch; empty if not possible.

    `ends`: the checkpoint's end positions, a line for each source; possible only if this source is
    the only one.
    """
    try:
        (end,) = ends
        return json.dumps(nested(Position.of_json(json.loads(end)).offsets), separators=(",", ":"))
    except (ValueError, SourceError):
        return ""


def nested(by_partition: Mapping[TopicPartition, T]) -> dict[str, dict[str, T]]:
    """Convert values by partition to {"orders": {"0": 12}}, sorted by topic and partition."""
    by_topic: dict[str, dict[str, T]] = {}
    for (topic, partition), value in sorted(by_partition.items(), key=lambda item: item[0]):
        by_topic.setdefault(topic, {})[str(partition)] = value
    return by_topic


def flat(said: Mapping[str, Mapping[str, int]]) -> Ends:
    """Convert offsets in the form that `nested` returns to offsets by partition."""
    return {partition: int(offset) for partition, offset in _flat(said).items()}


def _flat(said: Mapping[str, Mapping[str, T]]) -> dict[TopicPartition, T]:
    return {
        TopicPartition(topic, int(partition)): value
        for topic, values in said.items()
        for partition, value in values.items()
    }


def topics_of(partitions: Iterable[TopicPartition]) -> list[str]:
    """Return the names of the partitions' topics, sorted, without duplicates."""
    return sorted({partition.topic for partition in partitions})


def text_of_id(topic_id: bytes) -> str:
    """Convert a topic id to the text that Kafka's tools print."""
    return urlsafe_b64encode(topic_id).decode().rstrip("=")


def id_of_text(text: str) -> bytes:
    """Convert a topic id's text to its 16 bytes; SourceError if invalid."""
    try:
        topic_id = urlsafe_b64decode(text + "==")
    except ValueError:
        topic_id = b""
    if len(topic_id) != _ID_BYTES:
        raise SourceError(f"the checkpoint holds {text!r}, which is no topic id")
    return topic_id
