"""Fetch at the edges: what limits cut off, what sessions must tell again."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace.cluster.topics.creation import NewTopic
from headrace.frontends.kafka.fetch.wanted_partitions import WantedPartitions
from headrace.model.errors import ErrorCode
from headrace.model.nouns import TRANSACTIONS_TOPIC
from headrace.record.batch import Record, build
from headrace.testing.disk import SimDisk
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.hot.fetch import FetchPartition
from headrace.wire.kafka.hot.fetch_response import FetchedPartition
from tests.support.client.client import FrameClient
from tests.support.net.net import until
from tests.support.processes.broker import play, room

TOPIC, ID, NOW = "t", "tx", 1_780_000_000_000
MINUTE = timedelta(minutes=1)


async def produce(client: FrameClient, partition: int, data: bytes, name: str | None = None) -> int:
    """The offset the batch has now."""
    key = ApiKey.PRODUCE
    part = client.part(key, 9, "PartitionProduceData", index=partition, records=data)
    topic = client.part(key, 9, "TopicProduceData", name=TOPIC, partition_data=(part,))
    answer = await client.ask(
        key, 9, transactional_id=name, acks=-1, timeout=MINUTE, topic_data=(topic,)
    )
    (result,) = answer.responses[0].partition_responses
    assert int(result.error_code) == 0
    return int(result.base_offset)


async def fetch(
    client: FrameClient, partitions: range, max_bytes: int, *, of_one: int = 1 << 20
) -> list[Any]:
    """The answers of the partitions, read committed, each from its first offset."""
    key = ApiKey.FETCH
    parts = tuple(
        client.part(
            key, 12, "FetchPartition", partition=at, fetch_offset=0, partition_max_bytes=of_one
        )
        for at in partitions
    )
    topic = client.part(key, 12, "FetchTopic", topic=TOPIC, partitions=parts)
    answer = await client.ask(
        key,
        12,
        max_wait=timedelta(0),
        min_bytes=0,
        max_bytes=max_bytes,
        isolation_level=1,
        topics=(topic,),
        forgotten_topics_data=(),
    )
    return list(answer.responses[0].partitions)


@pytest.mark.parametrize("cold", [False, True])
@pytest.mark.parametrize("max_bytes", [1, 3_000, 4_500])
def test_one_partition_alone_may_give_more_than_a_fetchs_limit(
    tmp_path: Path, cold: bool, max_bytes: int
) -> None:
    async def run() -> None:
        disk = SimDisk()
        async with room(tmp_path, disk) as here:
            await here.controller.create_topics([NewTopic(TOPIC, 4)])
            client = FrameClient(here)
            for partition in range(1, 4):  # the first one has nothing to give
                data = build([Record(0, NOW, None, b"x" * 2_000, ())])
                for _ in range(2):
                    await produce(client, partition, data)
            disk.cold = cold
            found = await fetch(client, range(4), max_bytes)
            sizes = [len(one.records or b"") for one in found]
            assert sizes[0] == 0
            assert sizes[1] > 2_000, "there is always one batch"
            assert sum(sizes) <= max(max_bytes, len(data)), sizes

    play(run())


@pytest.mark.parametrize("cold", [False, True])
def test_an_aborted_record_just_before_the_cut_is_told_of(tmp_path: Path, cold: bool) -> None:
    async def run() -> None:
        disk = SimDisk()
        async with room(tmp_path, disk) as here:
            await here.controller.create_topics([NewTopic(TOPIC, 1)])
            await here.controller.ensure_internal_topic(TRANSACTIONS_TOPIC)
            client = FrameClient(here)
            first = build([Record(0, NOW, None, b"first", ())])
            await produce(client, 0, first)
            who = await begin(client)
            batch = build(
                [Record(0, NOW, None, b"aborted", ())],
                producer_id=who["producer_id"],
                producer_epoch=who["producer_epoch"],
                base_sequence=0,
                transactional=True,
            )
            assert await produce(client, 0, batch, ID) == 1
            ended = await client.ask(ApiKey.END_TXN, 3, committed=False, **who)
            assert int(ended.error_code) == 0
            log = here.broker.partition(TOPIC, 0).log
            await until(lambda: log.end_offset == 3)  # EndTxn answers before its marker is written
            disk.cold = cold
            (found,) = await fetch(client, range(1), 1 << 20, of_one=len(first) + len(batch))
            assert len(found.records) == len(first) + len(batch), "the marker is cut off"
            (aborted,) = found.aborted_transactions
            assert (aborted.producer_id, aborted.first_offset) == (who["producer_id"], 1)

    play(run())


async def begin(client: FrameClient) -> dict[str, Any]:
    """A transaction that has the partition in it; who the producer is."""
    asked = {"transactional_id": ID, "transaction_timeout": MINUTE}
    answer = await client.ask(ApiKey.INIT_PRODUCER_ID, 4, **asked)
    who = {
        "transactional_id": ID,
        "producer_id": answer.producer_id,
        "producer_epoch": answer.producer_epoch,
    }
    key = ApiKey.ADD_PARTITIONS_TO_TXN
    topic = client.part(key, 3, "AddPartitionsToTxnTopic", name=TOPIC, partitions=(0,))
    old = {f"v3_and_below_{name}": value for name, value in {**who, "topics": (topic,)}.items()}
    added = await client.ask(key, 3, **old)
    (result,) = added.results_by_topic_v3_and_below[0].results_by_partition
    assert int(result.partition_error_code) == 0
    return who


def test_what_comes_after_an_error_is_news_whatever_the_error_said() -> None:
    wanted = WantedPartitions(kept=True)
    wanted.put(("t", 0), FetchPartition(0, -1, 5, -1, -1, 1 << 20))
    (partition,) = wanted.by_key.values()

    def is_news(answer: FetchedPartition) -> bool:
        news = partition.has_news(answer)
        wanted.told(partition, answer)
        return news

    right = FetchedPartition(0, 0, 5, 5, 0)
    assert is_news(right)
    assert not is_news(right)
    bare = FetchedPartition(0, int(ErrorCode.KAFKA_STORAGE_ERROR))
    assert is_news(bare)
    assert is_news(bare)
    assert is_news(right)
    failed = right._replace(error_code=int(ErrorCode.KAFKA_STORAGE_ERROR))
    assert is_news(failed)
    assert is_news(failed), "an error is told as long as it lasts"
    assert is_news(right)
    assert not is_news(right)
