"""What a streaming query's checkpoint and progress say of this source: one JSON object.

    {"headrace": {"bootstrap": "127.0.0.1:9092", "cluster": "Zk3...", "group": "orders",
                  "ids": {"orders": "2aR..."}, "added": {"orders": {"2": 0}},
                  "parts": {"orders": {"0": 4}}, "skipped": {"orders": {"1": [40, 88]}}},
     "offsets": {"orders": {"0": 120, "1": 88, "2": 14}}}

`offsets` are exclusive ends, as a consumer group commits them. The rest is what must be the same
when the batch that ends here is repeated, or must be known at the next start:

* bootstrap and group, because the listener that commits the offsets sees no options; for the same
  reason the name of the `configFile`, and `"told": true` where secrets are in options, which must
  not be written here: then the source shows its group itself;
* cluster and topic ids: a checkpoint of another cluster is refused, and a topic that was deleted
  and made again starts over;
* `added`, where partitions begin that do not begin where the batch before ended: new ones, those
  of a topic made again, and those of which a range was `skipped`;
* `parts`, into how many tasks a partition's range is cut, where that is more than one. Offsets
  written before there were `parts` (`"parts"` missing) are cut by the options of the day.
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
"""Ranges of offsets, the end exclusive."""
T = TypeVar("T")
_ID_BYTES = 16
_SHOWN_CHARACTERS = 200


@dataclass(frozen=True)
class Position:
    """Where a query stands."""

    bootstrap: str
    offsets: Ends
    group: str = ""
    """Consumer group to show the offsets under; empty where nobody named one."""
    ids: Mapping[str, str] = field(default_factory=dict)
    added: Ends = field(default_factory=dict)
    cluster: str = ""
    """The cluster's id; empty in offsets that do not know it."""
    parts: Ends | None = None
    """Tasks of the batch that ends here, by partition, where more than one; None: not said."""
    skipped: Skipped = field(default_factory=dict)
    config_file: str = ""
    """Where a client's settings are; empty where none was named."""
    told_by_source: bool = False
    """Whether the source shows the offsets: who sees this alone could not connect."""
    earliest: bool = False
    """Of the first position: it is where the logs began, whatever retention does since."""

    def to_json(self) -> dict[str, Any]:
        """Return the same, in JSON's types, always in the same order: Spark compares the text."""
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
        if self.earliest:
            about["earliest"] = True
        return {MARK: about, "offsets": nested(self.offsets)}

    @classmethod
    def of_json(cls, said: Mapping[str, Any]) -> "Position":
        """Read what `to_json` wrote, older releases' too; SourceError for another source's."""
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
                earliest=bool(about.get("earliest", False)),
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            shown = str(said)[:_SHOWN_CHARACTERS]
            raise SourceError(
                f"the checkpoint holds no offsets of this source: {shown}; give the query a new "
                "checkpointLocation, and startingOffsets to go on where another source stopped"
            ) from None


def starting_offsets(ends: Sequence[str]) -> str:
    """Return the option `startingOffsets` that goes on behind a batch; empty where none does.

    `ends`: a line for each source of the query, as the checkpoint had them. One of ours alone says
    what the option takes.
    """
    try:
        (end,) = ends
        return json.dumps(nested(Position.of_json(json.loads(end)).offsets), separators=(",", ":"))
    except (ValueError, SourceError):
        return ""


def nested(by_partition: Mapping[TopicPartition, T]) -> dict[str, dict[str, T]]:
    """Return {"orders": {"0": 12}}, sorted by topic and partition."""
    by_topic: dict[str, dict[str, T]] = {}
    for (topic, partition), value in sorted(by_partition.items(), key=lambda item: item[0]):
        by_topic.setdefault(topic, {})[str(partition)] = value
    return by_topic


def flat(said: Mapping[str, Mapping[str, int]]) -> Ends:
    """Return the reverse of `nested`, of offsets."""
    return {partition: int(offset) for partition, offset in _flat(said).items()}


def _flat(said: Mapping[str, Mapping[str, T]]) -> dict[TopicPartition, T]:
    return {
        TopicPartition(topic, int(partition)): value
        for topic, values in said.items()
        for partition, value in values.items()
    }


def topics_of(partitions: Iterable[TopicPartition]) -> list[str]:
    """Return their topics, each once, sorted."""
    return sorted({partition.topic for partition in partitions})


def text_of_id(topic_id: bytes) -> str:
    """Return a topic's id as Kafka's tools print it."""
    return urlsafe_b64encode(topic_id).decode().rstrip("=")


def id_of_text(text: str) -> bytes:
    """Return the reverse of `text_of_id`; SourceError where it is no id."""
    try:
        topic_id = urlsafe_b64decode(text + "==")
    except ValueError:
        topic_id = b""
    if len(topic_id) != _ID_BYTES:
        raise SourceError(f"the checkpoint holds {text!r}, which is no topic id")
    return topic_id
