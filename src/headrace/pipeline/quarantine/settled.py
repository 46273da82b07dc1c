"""Which quarantined records of a flow are settled: replayed, dropped or covered.

`<pipeline>.<flow>.quarantine.settled` is a compacted topic of one partition. A record's key is a
partition of a quarantine topic, its value the settled offsets as JSON ranges:
`[[first, last, "replayed"], …]`.
"""

import json
from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from headrace.client.admin.topics import create_topic
from headrace.client.client import Client
from headrace.client.producer.producer import Producer
from headrace.client.sync import run
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.pipeline.quarantine.records import Quarantined, read_committed
from headrace.spark.quarantine.names import settled_topic

REPLAYED, DROPPED, COVERED = "replayed", "dropped", "covered"
"""Covered: an applied replay of days has put its row into the table."""
_CONFIGS = {"cleanup.policy": "compact", "max.message.bytes": str(16 << 20)}


class _Range(NamedTuple):
    """Neighbouring offsets with the same outcome."""

    first: int
    last: int
    how: str


class Settled:
    """The settled records of one flow, as ranges of offsets."""

    def __init__(self, client: Client, pipeline: str, flow: str) -> None:
        self._client = client
        self.topic = settled_topic(pipeline, flow)
        self._ranges: dict[TopicPartition, list[_Range]] = {}
        self._changed: dict[TopicPartition, list[_Range]] = {}

    def load(self) -> None:
        """Read the topic; nothing is settled if it does not exist. Raises ApiError, ClientError."""
        self._ranges, self._changed = {}, {}
        known = run(self._client.metadata([self.topic]))
        code = known.topics[self.topic].error_code
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return
        for _, record in read_committed(self._client, self.topic):
            topic, _, number = (record.key or b"").decode().rpartition("-")
            ranges = [_Range(*each) for each in json.loads(record.value or b"[]")]
            self._ranges[TopicPartition(topic, int(number))] = sorted(ranges)

    def create(self) -> None:
        """Create the topic if it does not exist. Raises ApiError."""
        known = run(self._client.metadata([self.topic]))
        if not known.topics[self.topic].error_code:
            return
        try:
            run(create_topic(self._client, self.topic, partitions=1, configs=_CONFIGS))
        except ApiError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        run(self._client.leaders([self.topic]))

    def outcome(self, found: Quarantined) -> str | None:
        """Return how a record is settled; None if it waits in the quarantine."""
        ranges, offset = self._ranges.get(found.at, []), found.record.offset
        number = bisect_right(ranges, offset, key=lambda range_: range_.first) - 1
        return ranges[number].how if number >= 0 and offset <= ranges[number].last else None

    def change(self, found: Quarantined, how: str | None) -> None:
        """Change how a record is settled, for `settle`; None: it waits again."""
        changed = self._changed.setdefault(found.at, [])
        if self.outcome(found) is not None:
            self._forget(found)
        if how is not None:
            offset = found.record.offset
            _add(changed, _Range(offset, offset, how))

    def _forget(self, found: Quarantined) -> None:
        offset, kept = found.record.offset, []
        for range_ in self._ranges[found.at]:
            if not range_.first <= offset <= range_.last:
                kept.append(range_)
                continue
            if range_.first < offset:
                kept.append(range_._replace(last=offset - 1))
            if offset < range_.last:
                kept.append(range_._replace(first=offset + 1))
        self._ranges[found.at] = kept

    def settle(self, producer: Producer, now_ms: int) -> None:
        """Send the noted records' outcomes, in the producer's open transaction."""
        for place, changed in sorted(self._changed.items()):
            ranges = self._ranges[place] = _joined([*self._ranges.get(place, []), *changed])
            key, value = str(place).encode(), json.dumps(ranges).encode()
            run(producer.send(self.topic, value, key, timestamp=now_ms, partition=0))
        self._changed = {}


def _joined(ranges: Iterable[_Range]) -> list[_Range]:
    joined: list[_Range] = []
    for range_ in sorted(ranges):
        _add(joined, range_)
    return joined


def _add(ranges: list[_Range], range_: _Range) -> None:
    """Append a range, or extend the last one by it."""
    if ranges and ranges[-1].last == range_.first - 1 and ranges[-1].how == range_.how:
        ranges[-1] = ranges[-1]._replace(last=range_.last)
    else:
        ranges.append(range_)
