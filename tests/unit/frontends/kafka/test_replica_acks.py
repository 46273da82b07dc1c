"""What acks=all is told by its followers' fetches, and when too few of them are left."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from headrace.record.batch import Record, build
from headrace.security.identity import Identity
from headrace.wire.kafka.api import ApiKey
from tests.support.cluster.followed import EPOCH, TOPIC, A, Asking, is_flushed, lead, led, tell
from tests.support.processes.broker import Room, until
from tests.support.security.authorisation import call, errors, open_session
from tests.support.security.authorisation_values import SECOND

TOO_FEW_BEFORE, TOO_FEW_AFTER = 19, 20
CODE = "responses.partition_responses.error_code"


def produced(*indexes: int) -> dict[str, Any]:
    """A request for one record in each of these partitions."""
    batch = build([Record(0, 1_780_000_000_000, None, b"v", ())])
    data = [{"index": index, "records": batch} for index in indexes]
    topic = {"name": TOPIC, "partition_data": data}
    return {"acks": -1, "timeout": 60 * SECOND, "topic_data": [topic]}


async def ended(waiting: "asyncio.Future[Any]") -> bool:
    """Whether an answer is there before long."""
    for _ in range(50):
        await asyncio.sleep(0.001)
        if waiting.done():
            return True
    return False


@pytest.mark.parametrize("count", [1, 2])
def test_a_produce_that_waits_is_told_that_too_few_replicas_are_left(
    tmp_path: Path, count: int
) -> None:
    async def story(here: Room) -> None:
        partition = await led(here, A, partitions=2, min_insync_replicas="2")
        dispatcher, session = open_session(here, Identity("10.0.0.1", "PLAINTEXT"))
        values = produced(*range(count))
        waiting = asyncio.ensure_future(call(here, session, ApiKey.PRODUCE, 9, values))
        await until(is_flushed(partition))
        assert not await ended(waiting)
        for index in range(count):
            lead(here, index=index, version=1)
        assert errors(await waiting) == {(CODE, TOO_FEW_AFTER)}
        answer = await call(here, session, ApiKey.PRODUCE, 9, values)
        assert errors(answer) == {(CODE, TOO_FEW_BEFORE)}
        await dispatcher.stop()

    tell(tmp_path, story)


@pytest.mark.parametrize("count", [1, 2])
def test_a_produce_is_acknowledged_by_the_fetch_that_asks_for_what_follows(
    tmp_path: Path, count: int
) -> None:
    async def story(here: Room) -> None:
        partition = await led(here, A, partitions=2)
        dispatcher, session = open_session(here, Identity("10.0.0.1", "PLAINTEXT"))
        values = produced(*range(count))
        waiting = asyncio.ensure_future(call(here, session, ApiKey.PRODUCE, 9, values))
        await until(is_flushed(partition))
        asking = Asking(here)
        await asking.told(asking.ask(dict.fromkeys(range(2), (0, -1)), wait_ms=0))
        assert not await ended(waiting)
        await asking.told(asking.ask(dict.fromkeys(range(count), (1, EPOCH)), wait_ms=0))
        assert errors(await waiting) == set()
        await dispatcher.stop()

    tell(tmp_path, story)
