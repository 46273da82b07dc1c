"""What waits for followers' log starts, and what followers are told of epochs' ends."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.metadata_image import ImageDelta
from headrace.frontends.kafka.admin import delete_records
from headrace.security.identity import Identity
from headrace.wire.kafka.api import ApiKey
from tests.support.admin import ask, codes, nested
from tests.support.cluster.followed import (
    EPOCH,
    TOPIC,
    A,
    Asking,
    B,
    is_flushed,
    led,
    tell,
    turns,
)
from tests.support.net.served import served
from tests.support.processes.broker import Room, append, until
from tests.support.security.authorisation import call, open_session

API = served(delete_records)


async def deleted(here: Room, offset: int, seconds: float = 30) -> tuple[str, int]:
    """The code, and where the partition begins by then."""
    asked = nested(API, 2, "DeleteRecordsPartition", partition_index=0, offset=offset)
    topic = nested(API, 2, "DeleteRecordsTopic", name=TOPIC, partitions=(asked,))
    answer = await ask(here, API, 2, topics=(topic,), timeout=timedelta(seconds=seconds))
    (found,) = answer.topics[0].partitions
    return codes([found])[0], found.low_watermark


async def committed(here: Room) -> tuple[Asking, Asking]:
    """Two followers that have all of four records."""
    partition = await led(here, A, B)
    for _ in range(4):
        append(partition)
    await until(is_flushed(partition))
    followers = Asking(here, A), Asking(here, B)
    for follower in followers:
        await follower.told(follower.ask({0: (4, EPOCH)}, wait_ms=0))
    assert partition.high_watermark == 4
    return followers


def test_records_are_deleted_once_all_followers_begin_there(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        first, second = await committed(here)
        waiting = asyncio.ensure_future(deleted(here, 3))
        await turns()
        told: Any = await first.told(first.ask({}))
        assert told[0].log_start_offset == 3
        first.log_start = second.log_start = 3
        await first.told(first.ask({0: (4, EPOCH)}, wait_ms=0))
        await turns()
        assert not waiting.done()
        await second.told(second.ask({0: (4, EPOCH)}, wait_ms=0))
        assert await waiting == ("NONE", 3)
        partition = here.broker.partition(TOPIC, 0)
        assert len(partition._watchers) == 2, "the followers' sessions"

    tell(tmp_path, story)


def test_a_follower_on_a_broker_that_is_away_is_not_waited_for(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        first, _ = await committed(here)
        waiting = asyncio.ensure_future(deleted(here, 3))
        await turns()
        first.log_start = 3
        await first.told(first.ask({0: (4, EPOCH)}, wait_ms=0))
        await turns()
        assert not waiting.done()
        alive = [info for info in here.broker.image.brokers.values() if info.broker_id != B]
        observers = len(here.broker.image.observers)
        here.broker.publish(ImageDelta(brokers=alive))
        assert await waiting == ("NONE", 3)
        assert len(here.broker.image.observers) == observers - 1

    tell(tmp_path, story)


def test_a_deletion_that_followers_do_not_hear_of_times_out(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        await committed(here)
        assert await deleted(here, 3, seconds=0.05) == ("REQUEST_TIMED_OUT", -1)
        assert here.broker.partition(TOPIC, 0).log_start_offset == 3

    tell(tmp_path, story)


def test_a_deletion_whose_leader_leads_no_more_is_sent_elsewhere(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        await committed(here)
        waiting = asyncio.ensure_future(deleted(here, 3))
        await turns()
        here.broker.partition(TOPIC, 0).role.resign()
        assert await waiting == ("NOT_LEADER_OR_FOLLOWER", -1)

    tell(tmp_path, story)


@pytest.mark.parametrize("version", [3, 4])
def test_followers_and_consumers_are_told_the_end_of_the_log_as_that_of_the_present_epoch(
    tmp_path: Path, version: int
) -> None:
    """A consumer ahead of the high watermark of a leader that has just begun lost nothing."""

    async def story(here: Room) -> None:
        partition = await led(here, A, B)
        append(partition)
        asked = {"partition": 0, "current_leader_epoch": EPOCH, "leader_epoch": EPOCH}
        topics = [{"topic": TOPIC, "partitions": [asked]}]
        front, session = open_session(here, Identity("10.0.0.1", "PLAINTEXT"))
        for replica_id in (-1, A, 99):
            values = {"replica_id": replica_id, "topics": topics}
            answer = await call(here, session, ApiKey.OFFSET_FOR_LEADER_EPOCH, version, values)
            (found,) = answer.topics[0].partitions
            assert (found.leader_epoch, found.end_offset) == (EPOCH, 1)
        await front.stop()

    tell(tmp_path, story)
