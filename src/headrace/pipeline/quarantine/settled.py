"""Which quarantined records of a flow are settled: replayed or dropped.

`<pipeline>.<flow>.quarantine.settled` is a compacted topic of one partition. A record's key is a
partition of a quarantine topic, its value the settled offsets as JSON ranges:
`[[first, last, "replayed"], …]`.
"""

import json
from collections.abc import Iterable
from contextlib import suppress

from headrace.client.admin.topics import create_topic
from headrace.client.client import Client
from headrace.client.producer.producer import Producer
from headrace.client.sync import run
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.pipeline.quarantine.records import Quarantined, read_committed
from headrace.spark.quarantine.names import settled_topic

REPLAYED, DROPPED = "replayed", "dropped"
_CONFIGS = {"cleanup.policy": "compact", "max.message.bytes": str(16 << 20)}


class Settled:
    """The settled records of one flow."""

    def __init__(self, client: Client, pipeline: str, flow: str) -> None:
        self._client = client
        self.topic = settled_topic(pipeline, flow)
        self._ends: dict[TopicPartition, dict[int, str]] = {}

    def load(self) -> None:
        """Read the topic; nothing is settled if it does not exist. Raises ApiError, ClientError."""
        self._ends = {}
        known = run(self._client.metadata([self.topic]))
        code = known.topics[self.topic].error_code
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return
        for _, record in read_committed(self._client, self.topic):
            topic, _, number = (record.key or b"").decode().rpartition("-")
            ranges = json.loads(record.value or b"[]")
            self._ends[TopicPartition(topic, int(number))] = {
                offset: how for first, last, how in ranges for offset in range(first, last + 1)
            }

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
        """Return REPLAYED or DROPPED; None if the record waits in the quarantine."""
        return self._ends.get(found.at, {}).get(found.record.offset)

    def settle(
        self, producer: Producer, found: Iterable[Quarantined], how: str, now_ms: int
    ) -> None:
        """Note records as settled, in the producer's open transaction."""
        changed: set[TopicPartition] = set()
        for record in found:
            self._ends.setdefault(record.at, {})[record.record.offset] = how
            changed.add(record.at)
        for place in sorted(changed):
            value = json.dumps(_ranges(self._ends[place])).encode()
            key = str(place).encode()
            run(producer.send(self.topic, value, key, timestamp=now_ms, partition=0))


def _ranges(outcomes: dict[int, str]) -> list[tuple[int, int, str]]:
    """Return offsets with their outcome as ranges of neighbours with the same outcome."""
    ranges: list[tuple[int, int, str]] = []
    for offset, how in sorted(outcomes.items()):
        with suppress(IndexError):
            first, last, before = ranges[-1]
            if last == offset - 1 and before == how:
                ranges[-1] = (first, offset, how)
                continue
        ranges.append((offset, offset, how))
    return ranges
