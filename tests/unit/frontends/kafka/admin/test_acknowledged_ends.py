"""Records acknowledged with acks=1 count for requests that ask where the log ends."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from headrace.cluster.topics.creation import NewTopic
from headrace.frontends.kafka.admin import delete_records
from headrace.frontends.kafka.fetch import list_offsets
from headrace.log.flusher import fdatasync_each
from headrace.model.errors import ErrorCode
from headrace.net.pending import Pending
from headrace.record.batch import Record, build, parse_header
from headrace.testing.disk import SimDisk
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.hot import list_offsets as wire
from tests.support.admin import MINUTE, nested
from tests.support.admin import ask as admin_ask
from tests.support.cluster.followed import dispatcher
from tests.support.net.served import served
from tests.support.processes.broker import Room, created, play, room, until

NOW_MS = 1_780_000_000_000
TOPIC = "t"


def tell(tmp_path: Path, story: Callable[[Room], Coroutine[Any, Any, None]]) -> None:
    async def told() -> None:
        async with room(tmp_path, SimDisk()) as here:
            await created(here, NewTopic(TOPIC, 2))
            await story(here)

    play(told())


def write(here: Room, index: int = 0) -> None:
    """Append one record with acks=1; nothing has been flushed when this returns."""
    view = memoryview(bytearray(build([Record(0, NOW_MS, None, b"v", ())])))
    partition = here.broker.partition(TOPIC, index)
    partition.append(view, parse_header(view), now_ms=NOW_MS, required_acks=1)
    assert partition.high_watermark < partition.log.end_offset


def ask(here: Room, timestamp: int, *indexes: int) -> Any:
    asked = [wire.PartitionRequest(index, timestamp, -1) for index in indexes]
    request = wire.ListOffsetsRequest(-1, 0, [wire.TopicRequest(TOPIC, asked)])
    context = here.context(ApiKey.LIST_OFFSETS, 7)
    context.shared = dispatcher(here).shared
    return list_offsets.handle(context, memoryview(bytearray(wire.encode_request(7, request))))


async def told(answer: Any) -> list[tuple[int, int]]:
    """Error code and offset of each partition."""
    if isinstance(answer, Pending):
        pending = answer
        await until(lambda: pending.done)
        answer = pending.parts()
    (topic,) = wire.decode_response(7, memoryview(answer)).topics
    return [(found.error_code, found.offset) for found in topic.partitions]


@pytest.mark.parametrize("timestamp", [wire.LATEST, wire.MAX_TIMESTAMP, NOW_MS])
def test_list_offsets_counts_records_acknowledged_with_acks_1(
    tmp_path: Path, timestamp: int
) -> None:
    async def story(here: Room) -> None:
        offset = 1 if timestamp == wire.LATEST else 0
        write(here)
        assert await told(ask(here, timestamp, 0)) == [(0, offset)]
        write(here, 1)
        assert await told(ask(here, timestamp, 0, 1, 7)) == [
            (0, offset),
            (0, offset),
            (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        ]

    tell(tmp_path, story)


def test_list_offsets_waits_for_the_flushes_of_all_directories(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        held: list[Callable[[], None]] = []

        def hold(disk: Any, files: Any, done: Any) -> None:
            held.append(lambda: fdatasync_each(disk, files, done))

        later = here.broker.partition(TOPIC, 1)
        (directory,) = [one for one in here.broker.directories if later.log in one.logs.values()]
        await until(lambda: later.log.flushed_offset == later.log.end_offset)
        directory.flusher.strategy = hold
        write(here)
        write(here, 1)
        answer = ask(here, wire.LATEST, 0, 1)
        await until(lambda: here.broker.partition(TOPIC, 0).high_watermark == 1 and held)
        assert not answer.done
        directory.flusher.strategy = fdatasync_each
        held[0]()
        assert await told(answer) == [(0, 1), (0, 1)]

    async def in_two_directories() -> None:
        async with room(tmp_path, SimDisk(), directories=("/a", "/b")) as here:
            await created(here, NewTopic(TOPIC, 2))
            await story(here)

    play(in_two_directories())


def test_the_earliest_offset_waits_for_no_flush(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        write(here)
        answer = ask(here, wire.EARLIEST, 0)
        assert not isinstance(answer, Pending)
        assert await told(answer) == [(0, 0)]
        assert await told(ask(here, wire.LATEST, 0)) == [(0, 1)]  # so that the stop waits for none

    tell(tmp_path, story)


def test_a_slow_disk_has_the_known_end_told_after_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(here: Room) -> None:
        write(here)
        partition = here.broker.partition(TOPIC, 0)
        monkeypatch.setattr(here.disk, "settle", lambda: 0)
        answer = ask(here, wire.LATEST, 0)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not answer.done
        here.broker.clock.advance(list_offsets.FLUSH_SECONDS_MAX + 1)  # type: ignore[attr-defined]
        assert await told(answer) == [(0, 0)]
        monkeypatch.undo()
        await until(lambda: partition.high_watermark == 1)

    tell(tmp_path, story)


def test_an_end_that_is_led_no_more_is_refused(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        write(here)
        answer = ask(here, wire.LATEST, 0)
        assert isinstance(answer, Pending)
        here.broker.partition(TOPIC, 0).role.resign()
        assert await told(answer) == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]

    tell(tmp_path, story)


@pytest.mark.parametrize("before", [1, -1])
def test_delete_records_reaches_records_acknowledged_with_acks_1(
    tmp_path: Path, before: int
) -> None:
    async def story(here: Room) -> None:
        write(here)
        api = served(delete_records)
        part = nested(api, 2, "DeleteRecordsPartition", partition_index=0, offset=before)
        topic = nested(api, 2, "DeleteRecordsTopic", name=TOPIC, partitions=(part,))
        answer = await admin_ask(here, api, 2, topics=(topic,), timeout=MINUTE)
        (found,) = answer.topics[0].partitions
        assert (found.error_code, found.low_watermark) == (0, 1)

    tell(tmp_path, story)
