"""The demo's topic, through Headrace's own client."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from headrace.client.admin.groups import committed
from headrace.client.admin.topics import create_topic
from headrace.client.calls.offsets import EARLIEST, LATEST, list_offsets
from headrace.client.producer.producer import Producer
from headrace.client.sync import connect, run
from headrace.model.nouns import TopicPartition
from headrace.pipeline.quarantine.records import read_quarantine
from headrace.record.compression import Codec

if TYPE_CHECKING:
    from examples.access_log.feed import Record

NAME = "access-log"
PARTITIONS = 4
_PARTS = [TopicPartition(NAME, partition) for partition in range(PARTITIONS)]


class Group(NamedTuple):
    """A consumer group on the topic: sums over the partitions."""

    name: str
    committed: int
    lag: int


class Topic:
    """A topic made for this run. Not for several threads."""

    def __init__(self, bootstrap: str) -> None:
        """Create it. Its records are as old as the captured log, so retention by time is off."""
        self._client = connect(bootstrap, client_id="access-log-demo")
        configs = {"retention.ms": "-1"}
        run(create_topic(self._client, NAME, partitions=PARTITIONS, configs=configs))
        self._producer = Producer(self._client, compression=Codec.LZ4)

    def send(self, records: list[Record]) -> None:
        """Send records to the partitions of their keys; returns when all are acknowledged."""
        for record in records:
            run(self._producer.send(NAME, record.value, record.key, timestamp=record.timestamp_ms))
        run(self._producer.flush())

    def send_to_all(self, record: Record) -> None:
        """Send the same record to every partition."""
        for partition in range(PARTITIONS):
            sending = self._producer.send(
                NAME,
                record.value,
                record.key,
                timestamp=record.timestamp_ms,
                partition=partition,
            )
            run(sending)
        run(self._producer.flush())

    def record_count(self) -> int:
        """How many records the topic holds, from the ends of its partitions."""
        starts = run(list_offsets(self._client, dict.fromkeys(_PARTS, EARLIEST)))
        return self._end() - sum(starts[part].offset for part in _PARTS)

    def group(self, name: str) -> Group:
        """What a consumer group has committed, and how much of the topic it has not."""
        offsets = run(committed(self._client, name, _PARTS))
        done = sum(offset.offset for offset in offsets.values())
        return Group(name, done, self._end() - done)

    def refused(self, flow: str) -> list[tuple[str, int]]:
        """Why a flow has refused lines, with their number: they are in the topic's quarantine."""
        reasons = Counter(
            record.info["reason"]
            for record in read_quarantine(self._client, NAME)
            if record.info["flow"] == flow
        )
        return reasons.most_common()

    def _end(self) -> int:
        ends = run(list_offsets(self._client, dict.fromkeys(_PARTS, LATEST)))
        return sum(ends[part].offset for part in _PARTS)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
