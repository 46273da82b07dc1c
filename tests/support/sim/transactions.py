"""A transactional producer of a simulation, on our own client: what each request is answered."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, TypeVar

from headrace.client.calls.call import ColdCall, HotCall, Maker, check, error_code
from headrace.client.client import Client
from headrace.client.transport.port import Link
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.record.batch import Record, build
from headrace.testing.sim.world import WALL_MS
from headrace.wire.kafka.api import ApiKey as K
from headrace.wire.kafka.hot import produce
from headrace.wire.kafka.primitives import NO_UUID

T = TypeVar("T")
GROUP, TRANSACTION, SHARE = range(3)


class Producer:
    """One transactional id; `verified` clients tell the coordinator of their partitions first."""

    def __init__(self, client: Client, name: str, *, verified: bool = False) -> None:
        self.client = client
        self.name = name
        self.verified = verified
        self.producer_id, self.epoch = -1, -1
        self._sequences: dict[TopicPartition, int] = {}

    async def init(self, timeout_ms: int = 60_000) -> None:
        """Become the id's producer; what it had open is aborted."""

        def build_request(maker: Maker) -> Any:
            return maker.request(
                transactional_id=self.name, producer_id=-1, producer_epoch=-1,
                transaction_timeout=timedelta(milliseconds=timeout_ms),
            )  # fmt: skip

        call = ColdCall(K.INIT_PRODUCER_ID, build_request, _producer_of, versions=(4, 4))
        self.producer_id, self.epoch = await self.ask(call)
        self._sequences.clear()

    async def add(self, *partitions: TopicPartition) -> None:
        """AddPartitionsToTxn as clients send it."""
        topics = _by_topic(partitions)

        def build_request(maker: Maker) -> Any:
            return maker.request(
                v3_and_below_transactional_id=self.name,
                v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=self.epoch,
                v3_and_below_topics=tuple(
                    maker.part("AddPartitionsToTxnTopic", name=name, partitions=tuple(numbers))
                    for name, numbers in topics.items()
                ),
            )

        def parse(response: Any) -> None:
            for topic in response.results_by_topic_v3_and_below:
                for partition in topic.results_by_partition:
                    check(partition.partition_error_code)

        await self.ask(ColdCall(K.ADD_PARTITIONS_TO_TXN, build_request, parse, versions=(3, 3)))

    async def write(self, partition: TopicPartition, value: bytes) -> None:
        """Write one record. ApiError as it is answered, once it is no retriable one."""
        if self.verified:
            await self.add(partition)
        await self.write_unasked(partition, value)

    async def write_unasked(self, partition: TopicPartition, value: bytes) -> None:
        """Write one record, its partition not added before by the client itself."""
        sequence = self._sequences.get(partition, 0)
        data = build(
            [Record(0, WALL_MS, None, value, ())], producer_id=self.producer_id,
            producer_epoch=self.epoch, base_sequence=sequence, transactional=True,
        )  # fmt: skip
        topic = produce.TopicData(partition.topic, NO_UUID,
                                  [produce.PartitionData(partition.partition, data)])  # fmt: skip
        request = produce.ProduceRequest(self.name, -1, 30_000, [topic])
        newest = 11 if self.verified else 12
        call = HotCall(
            K.PRODUCE, produce.encode_request, produce.decode_response, request,
            versions=(newest, newest),
        )  # fmt: skip

        async def attempt() -> None:
            known = await self.client.metadata([partition.topic])
            link = await self.client.broker(known.leader(*partition))
            response = await self.client.ask(link, call)
            ((answer,),) = [topic.partitions for topic in response.topics]
            if answer.error_code != ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                check(answer.error_code, answer.error_message)

        await self.client.retrying(attempt)
        self._sequences[partition] = sequence + 1

    async def commit_offsets(self, group: str, partition: TopicPartition, offset: int) -> None:
        """TxnOffsetCommit at the group's coordinator."""
        if self.verified:

            def build_add(maker: Maker) -> Any:
                return maker.request(
                    transactional_id=self.name, producer_id=self.producer_id,
                    producer_epoch=self.epoch, group_id=group,
                )  # fmt: skip

            await self.ask(ColdCall(K.ADD_OFFSETS_TO_TXN, build_add, _checked, versions=(3, 3)))

        def build_request(maker: Maker) -> Any:
            one = maker.part(
                "TxnOffsetCommitRequestPartition", partition_index=partition.partition,
                committed_offset=offset, committed_leader_epoch=-1, committed_metadata="",
            )  # fmt: skip
            topic = maker.part(
                "TxnOffsetCommitRequestTopic", name=partition.topic, partitions=(one,)
            )
            return maker.request(
                transactional_id=self.name, group_id=group, producer_id=self.producer_id,
                producer_epoch=self.epoch, generation_id=-1, member_id="",
                group_instance_id=None, topics=(topic,),
            )  # fmt: skip

        def parse(response: Any) -> None:
            check(response.topics[0].partitions[0].error_code)

        newest = 4 if self.verified else 5
        call = ColdCall(K.TXN_OFFSET_COMMIT, build_request, parse, versions=(newest, newest))
        await self.client.ask_coordinator(group, call)

    async def end(self, *, commit: bool = True) -> None:
        """End the transaction; answered when that is decided."""

        def build_request(maker: Maker) -> Any:
            return maker.request(
                transactional_id=self.name, producer_id=self.producer_id,
                producer_epoch=self.epoch, committed=commit,
            )  # fmt: skip

        def parse(response: Any) -> tuple[int, int]:
            check(response.error_code)
            if self.verified:
                return self.producer_id, self.epoch
            return int(response.producer_id), int(response.producer_epoch)

        newest = 4 if self.verified else 5
        call = ColdCall(K.END_TXN, build_request, parse, versions=(newest, newest))
        before = self.producer_id, self.epoch
        self.producer_id, self.epoch = await self.ask(call)
        if before != (self.producer_id, self.epoch):
            self._sequences.clear()

    async def ask(self, call: ColdCall[T]) -> T:
        """Ask the id's coordinator, again while the failure may pass."""

        async def attempt() -> T:
            return await self.client.ask(await self.coordinator(), call)

        return await self.client.retrying(attempt)

    async def coordinator(self) -> Link:
        """Return a connection to the id's coordinator."""
        return await self.client.coordinator(TRANSACTION, self.name)


async def refusal(asked: Any) -> ErrorCode:
    """Return what the awaited request was refused with; NONE where it was not."""
    try:
        await asked
    except ApiError as error:
        return error.code
    return ErrorCode.NONE


def coordinators(maker_key: int, keys: Sequence[str]) -> ColdCall[list[tuple[str, ErrorCode, int]]]:
    """Make FindCoordinator of several keys: key, error and node of each."""

    def build_request(maker: Maker) -> Any:
        return maker.request(key_type=maker_key, coordinator_keys=tuple(keys))

    def parse(response: Any) -> list[tuple[str, ErrorCode, int]]:
        return [
            (str(one.key), error_code(one.error_code), int(one.node_id))
            for one in response.coordinators
        ]

    return ColdCall(K.FIND_COORDINATOR, build_request, parse, versions=(6, 6))


def _by_topic(partitions: Sequence[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, number in partitions:
        found.setdefault(topic, []).append(number)
    return found


def _producer_of(response: Any) -> tuple[int, int]:
    check(response.error_code)
    return int(response.producer_id), int(response.producer_epoch)


def _checked(response: Any) -> None:
    check(response.error_code)
