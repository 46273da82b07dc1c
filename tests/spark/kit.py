"""Topics with known records, written batch by batch so that codecs and bounds are as wanted."""

import time
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace.client.admin.groups import committed
from headrace.client.admin.topics import (
    TOPIC_RESOURCE,
    alter_configs,
    create_partitions,
    create_topic,
    delete_topic,
)
from headrace.client.calls.call import HotCall, check
from headrace.client.calls.offsets import EARLIEST, list_offsets
from headrace.client.sync import connect, run
from headrace.model.errors import ApiError
from headrace.model.nouns import TopicPartition
from headrace.record.batch import Codec, Record, build
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.hot import produce
from headrace.wire.kafka.primitives import NO_UUID

if TYPE_CHECKING:
    from headrace.client.client import Client

TIME_MS = int(time.time()) * 1000 - 3_600_000
"""An hour ago: within every broker's default retention."""


class Topics:
    """Makes topics on one broker, writes to them, looks at groups."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.client: Client = connect(bootstrap)

    def close(self) -> None:
        self.client.close()

    def create(
        self, partitions: int = 1, name: str | None = None, configs: dict[str, str] | None = None
    ) -> str:
        topic = name or f"t-{uuid.uuid4().hex[:10]}"
        run(create_topic(self.client, topic, partitions=partitions, configs=configs))
        run(self.client.leaders([topic]))
        return topic

    def created(self, topic: str) -> bool:
        """Whether it could be made: not while one of that name is being deleted."""
        try:
            self.create(name=topic)
        except ApiError:
            return False
        return True

    def delete(self, topic: str) -> None:
        run(delete_topic(self.client, topic))

    def grow(self, topic: str, partitions: int) -> None:
        run(create_partitions(self.client, topic, partitions))
        while len(run(self.client.leaders([topic])).topics[topic].partitions) < partitions:
            pass

    def append(
        self,
        topic: str,
        partition: int,
        records: Sequence[Record],
        codec: Codec = Codec.NONE,
    ) -> None:
        """One batch."""
        data = produce.PartitionData(partition, build(list(records), compression=codec))
        request = produce.ProduceRequest(
            None, -1, 30_000, [produce.TopicData(topic, NO_UUID, [data])]
        )
        call = HotCall(
            ApiKey.PRODUCE,
            produce.encode_request,
            produce.decode_response,
            request,
            versions=(3, 12),
        )

        async def attempt() -> None:
            known = await self.client.metadata([topic])
            link = await self.client.broker(known.leader(topic, partition))
            response = await self.client.ask(link, call)
            check(response.topics[0].partitions[0].error_code)

        run(self.client.retrying(attempt))

    def expire(self, topic: str) -> None:
        """Let retention take all that is there."""
        self._configure(topic, "1000")

    def keep(self, topic: str) -> None:
        """Let retention take nothing."""
        self._configure(topic, "-1")

    def _configure(self, topic: str, retention_ms: str) -> None:
        settings = {"retention.ms": retention_ms}
        run(alter_configs(self.client, TOPIC_RESOURCE, topic, set_=settings))

    def earliest(self, partition: TopicPartition) -> int:
        return run(list_offsets(self.client, {partition: EARLIEST}))[partition].offset

    def number(
        self, topic: str, partition: int, first: int, count: int, codec: Codec = Codec.LZ4
    ) -> None:
        """Records whose values count up from `first`, one millisecond apart, in batches of 100."""
        for base in range(first, first + count, 100):
            last = min(base + 100, first + count)
            self.append(topic, partition, [numbered(value) for value in range(base, last)], codec)

    def committed(self, group: str) -> dict[TopicPartition, int]:
        found = run(committed(self.client, group))
        return {one: at.offset for one, at in found.items()}


def numbered(value: int) -> Record:
    return Record(0, TIME_MS + value, f"k{value % 7}".encode(), str(value).encode())


def values_of(rows: Sequence[Any]) -> list[int]:
    return sorted(int(row["value"]) for row in rows)
