"""ShareFetches whose records are read from the disk, woken or out of time meanwhile."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.coordination.share.sessions import SessionKey, TopicPart
from headrace.frontends.kafka.share.share_reading import Fetched, ShareReading
from headrace.net.pending import Pending
from headrace.ports.deadlines import Deadlines
from headrace.testing.disk import SimDisk
from tests.support.coordination.share_room import GROUP, ShareRoom, share_room
from tests.support.processes.broker import play, until

WAIT_SECONDS = 1.0


class SlowDisk(SimDisk):
    """Jobs wait while `held` is a list: threads that are slow."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[tuple[Callable[[], Any], Callable[[Any], None]]] | None = None

    def run(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        if self.held is None:
            super().run(work, done)
        else:
            self.held.append((work, done))

    def hold(self) -> None:
        """Have nothing in the page cache, and be slow."""
        self.cold, self.held = True, []

    def release(self) -> None:
        """Do what waits, in its order."""
        held, self.held = self.held or [], None
        for work, done in held:
            super().run(work, done)


class Asked:
    """One member's request, whose acknowledgements are being settled: `done` answers nothing."""

    def __init__(self, share: ShareRoom, member: str) -> None:
        self.told: list[dict[TopicPart, Fetched]] = []
        broker = share.here.broker
        self.reading = ShareReading(
            broker,
            share.share.partitions,
            Deadlines(broker.clock),
            Pending(),
            SessionKey(GROUP, member),
            [share.key(0)[1:]],
            bytes_min=1,
            bytes_max=1 << 20,
            records_max=500,
            exactly=False,
            wait_seconds=WAIT_SECONDS,
            done=self.told.append,
        )
        self.reading.begin()

    def given(self) -> list[int]:
        """The offsets in all answers."""
        return [
            offset
            for found in self.told
            for fetched in found.values()
            if fetched.taken is not None
            for first, last, _ in fetched.taken.acquired
            for offset in range(first, last + 1)
        ]


async def first_write(share: ShareRoom, member: str) -> None:
    """Have the log's directory durable and its one record with `member`: no job is left to do."""
    await share.join("a", "b")
    await share.write(1)
    assert await share.fetch(member) == {0: 1}


async def turns() -> None:
    """Let everything that is due happen."""
    for _ in range(50):
        await asyncio.sleep(0)


@pytest.mark.parametrize("how", ["woken", "out of time"])
def test_a_request_whose_records_are_being_read_is_answered_once(tmp_path: Path, how: str) -> None:
    async def story() -> None:
        disk = SlowDisk()
        async with share_room(tmp_path, disk) as share:
            await first_write(share, "b")
            partition = await share.partition()
            asked = Asked(share, "a")
            await turns()
            disk.hold()
            await share.write(3)
            await until(lambda: disk.held)
            if how == "woken":
                await share.write(3)
                await turns()
            else:
                await share.advance(WAIT_SECONDS)
            disk.release()
            await turns()
            assert len(asked.told) == 1
            assert asked.given() == [1, 2, 3]
            assert partition.out == 1 + 3, "what is locked is in the answer"

    play(story())


def test_a_request_out_of_time_while_it_read_what_others_took_is_answered_then(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        disk = SlowDisk()
        async with share_room(tmp_path, disk) as share:
            await first_write(share, "b")
            asked = Asked(share, "a")
            await turns()
            disk.hold()
            await share.write(3)
            await until(lambda: disk.held)
            disk.cold = False
            assert await share.fetch("b") == {1: 1, 2: 1, 3: 1}
            await share.advance(WAIT_SECONDS)
            assert asked.told == []
            disk.release()
            await turns()
            assert asked.told == [{}]

    play(story())


def test_a_request_woken_while_it_read_what_others_took_is_given_what_came(tmp_path: Path) -> None:
    async def story() -> None:
        disk = SlowDisk()
        async with share_room(tmp_path, disk) as share:
            await first_write(share, "b")
            asked = Asked(share, "a")
            await turns()
            disk.hold()
            await share.write(3)
            await until(lambda: disk.held)
            disk.cold = False
            assert await share.fetch("b") == {1: 1, 2: 1, 3: 1}
            await share.write(2)
            await turns()
            assert asked.told == []
            disk.release()
            await turns()
            assert len(asked.told) == 1
            assert asked.given() == [4, 5]

    play(story())
