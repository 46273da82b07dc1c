"""A transactional producer that speaks in frames, against a whole broker but its sockets."""

from collections.abc import Callable, Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any

from headrace.cluster.topics.creation import NewTopic
from headrace.model.errors import ErrorCode
from headrace.model.nouns import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from headrace.record.batch import Record, build, iterate, records
from headrace.testing.disk import SimDisk
from headrace.wire.kafka.api import ApiKey
from tests.support.client.client import FrameClient
from tests.support.processes.broker import Room, play, room

K = ApiKey
NOW = 1_780_000_000_000
MINUTE = timedelta(minutes=1)
TOPIC, ID, GROUP = "t", "tx", "g"


def name_of(code: object) -> str:
    return ErrorCode(int(code)).name  # type: ignore[call-overload]


class Producer:
    """A transactional producer of single records, in the versions it is told."""

    def __init__(self, here: Room) -> None:
        self.here = here
        self.client = FrameClient(here)
        self.producer_id, self.epoch = -1, -1
        self.sequence: dict[int, int] = {}

    @property
    def who(self) -> dict[str, Any]:
        return {
            "transactional_id": ID,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }

    async def init(self, version: int = 4, **fields: Any) -> str:
        given = {"transactional_id": ID, "transaction_timeout": MINUTE, **fields}
        answer = await self.client.ask(K.INIT_PRODUCER_ID, version, **given)
        if not int(answer.error_code):
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequence = {}
        return name_of(answer.error_code)

    async def add(self, *partitions: int, version: int = 3, verify: bool = False,
                  topic: str = TOPIC) -> list[str]:  # fmt: skip
        key = K.ADD_PARTITIONS_TO_TXN
        topics = (
            self.client.part(
                key, version, "AddPartitionsToTxnTopic", name=topic, partitions=partitions
            ),
        )
        fields: dict[str, Any] = {**self.who, "topics": topics}
        if version >= 4:
            one = self.client.part(
                key, version, "AddPartitionsToTxnTransaction", verify_only=verify, **fields
            )
            answer = await self.client.ask(key, version, transactions=(one,))
            (result,) = answer.results_by_transaction
            (found,) = result.topic_results
        else:
            old = {f"v3_and_below_{name}": value for name, value in fields.items()}
            answer = await self.client.ask(key, version, **old)
            (found,) = answer.results_by_topic_v3_and_below
        return [name_of(one.partition_error_code) for one in found.results_by_partition]

    async def write(self, value: bytes, partition: int = 0, version: int = 9, *,
                    transactional_id: str | None = ID, **given: Any) -> str:  # fmt: skip
        sequence = self.sequence.get(partition, 0)
        batch: dict[str, Any] = {
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "base_sequence": sequence,
            "transactional": True,
        }
        data = build([Record(0, NOW, None, value, ())], **(batch | given))
        key = K.PRODUCE
        part = self.client.part(key, version, "PartitionProduceData", index=partition, records=data)
        topic = self.client.part(
            key, version, "TopicProduceData", name=TOPIC, partition_data=(part,)
        )
        answer = await self.client.ask(
            key,
            version,
            transactional_id=transactional_id,
            acks=-1,
            timeout=MINUTE,
            topic_data=(topic,),
        )
        code = answer.responses[0].partition_responses[0].error_code
        if not int(code):
            self.sequence[partition] = sequence + 1
        return name_of(code)

    async def end(self, commit: bool = True, version: int = 3) -> str:
        answer = await self.client.ask(K.END_TXN, version, committed=commit, **self.who)
        if version >= 5 and not int(answer.error_code):
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequence = {}
        return name_of(answer.error_code)

    async def add_offsets(self, version: int = 3) -> str:
        answer = await self.client.ask(K.ADD_OFFSETS_TO_TXN, version, group_id=GROUP, **self.who)
        return name_of(answer.error_code)

    async def commit_offset(self, offset: int, version: int = 3, partition: int = 0) -> str:
        key = K.TXN_OFFSET_COMMIT
        part = self.client.part(
            key,
            version,
            "TxnOffsetCommitRequestPartition",
            partition_index=partition,
            committed_offset=offset,
            committed_metadata="",
        )
        topic = self.client.part(
            key, version, "TxnOffsetCommitRequestTopic", name=TOPIC, partitions=(part,)
        )
        answer = await self.client.ask(key, version, group_id=GROUP, topics=(topic,), **self.who)
        return name_of(answer.topics[0].partitions[0].error_code)

    async def read(self, partition: int = 0, committed: bool = True) -> list[bytes | None]:
        """What a reader makes of one Fetch: aborted transactions left out."""
        key, version = K.FETCH, 12
        part = self.client.part(
            key,
            version,
            "FetchPartition",
            partition=partition,
            fetch_offset=0,
            partition_max_bytes=1 << 20,
        )
        topic = self.client.part(key, version, "FetchTopic", topic=TOPIC, partitions=(part,))
        answer = await self.client.ask(
            key,
            version,
            max_wait=timedelta(0),
            min_bytes=0,
            isolation_level=int(committed),
            topics=(topic,),
            forgotten_topics_data=(),
        )
        found = answer.responses[0].partitions[0]
        return list(_values(bytes(found.records or b""), found.aborted_transactions or ()))

    async def stable_end(self, version: int = 5) -> int:
        key = K.LIST_OFFSETS
        part = self.client.part(
            key, version, "ListOffsetsPartition", partition_index=0, timestamp=-1
        )
        topic = self.client.part(key, version, "ListOffsetsTopic", name=TOPIC, partitions=(part,))
        answer = await self.client.ask(
            key, version, replica_id=-1, isolation_level=1, topics=(topic,)
        )
        return int(answer.topics[0].partitions[0].offset)


def _values(data: bytes, aborted: Any) -> Any:
    left = sorted(((one.first_offset, one.producer_id) for one in aborted), reverse=True)
    skipped: set[int] = set()
    for at, header in iterate(data):
        while left and left[-1][0] <= header.base_offset:
            skipped.add(left.pop()[1])
        if header.attributes & 0x20:
            skipped.discard(header.producer_id)
        elif header.producer_id not in skipped:
            yield from (one.value for one in records(data[at:]))


Story = Callable[[Producer], Coroutine[Any, Any, None]]


def tell(place: Path, story: Story) -> None:
    async def run() -> None:
        async with room(place, SimDisk()) as here:
            await here.controller.create_topics([NewTopic(TOPIC, 3)])
            await here.controller.ensure_internal_topic(TRANSACTIONS_TOPIC)
            await here.controller.ensure_internal_topic(OFFSETS_TOPIC)
            await story(Producer(here))

    play(run())
