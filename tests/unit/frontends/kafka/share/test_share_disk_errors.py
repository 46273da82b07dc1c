"""ShareFetches of several partitions of which the disk does not give all."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.coordination.share.sessions import SessionKey, TopicPart
from headrace.frontends.kafka.share.share_reading import Fetched, ShareReading
from headrace.log.log import Log
from headrace.model.errors import ApiError, ErrorCode
from headrace.net.pending import Pending
from headrace.ports.deadlines import Deadlines
from headrace.testing.disk import SimDisk
from tests.support.coordination.share_room import GROUP, ShareRoom, share_room
from tests.support.processes.broker import play, until


class ColdDisk(SimDisk):
    """Nothing is in the page cache once a test says so."""

    failing: BaseException | None = None

    def run(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        if self.failing is None:
            super().run(work, done)
        else:
            done(self.failing)


def ask(share: ShareRoom, *, records_max: int = 500) -> list[dict[TopicPart, Fetched]]:
    """One fetch of the first partition, by a member, that waits for nothing."""
    told: list[dict[TopicPart, Fetched]] = []
    ShareReading(
        share.here.broker,
        share.share.partitions,
        Deadlines(share.here.broker.clock),
        Pending(),
        SessionKey(GROUP, "a"),
        [share.key(0)[1:]],
        bytes_min=1,
        bytes_max=1 << 20,
        records_max=records_max,
        exactly=False,
        wait_seconds=0.0,
        done=told.append,
    ).begin()
    return told


def test_a_partition_whose_records_cannot_be_read_is_told_with_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*_: object, **__: object) -> None:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, "damaged")

    async def story() -> None:
        disk = ColdDisk()
        async with share_room(tmp_path, disk) as share:
            await share.join("a")
            await share.write(3)
            partition = await share.partition()
            disk.cold = True
            with monkeypatch.context() as patched:
                patched.setattr(Log, "read_from_disk", damaged)
                told = ask(share)
                await until(lambda: told)
            ((part, fetched),) = told[0].items()
            assert part == share.key(0)[1:]
            assert fetched.error is not None
            assert fetched.error.code is ErrorCode.CORRUPT_MESSAGE
            assert fetched.taken is None
            assert partition.out == 0, "nobody holds what nobody was given"
            told = ask(share)
            await until(lambda: told)
            ((_, fetched),) = told[0].items()
            assert fetched.taken is not None
            assert [tuple(got) for got in fetched.taken.acquired] == [(0, 2, 1)]

    play(story())


def test_a_segment_that_goes_while_it_is_read_is_told_as_an_error_of_storage(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        disk = ColdDisk()
        async with share_room(tmp_path, disk) as share:
            await share.join("a")
            await share.write(3)
            partition = await share.partition()
            disk.cold, disk.failing = True, FileNotFoundError("gone")
            told = ask(share)
            disk.failing = None
            await until(lambda: told)
            ((_, fetched),) = told[0].items()
            assert fetched.error is not None
            assert fetched.error.code is ErrorCode.KAFKA_STORAGE_ERROR
            assert partition.out == 0

    play(story())


@pytest.mark.parametrize("cold", [False, True])
def test_no_more_records_are_given_than_were_asked_for(tmp_path: Path, cold: bool) -> None:
    async def story() -> None:
        disk = ColdDisk()
        async with share_room(tmp_path, disk) as share:
            await share.join("a")
            await share.write(1, batches=4)
            partition = await share.partition()
            disk.cold = cold
            told = ask(share, records_max=2)
            await until(lambda: told)
            ((_, fetched),) = told[0].items()
            assert fetched.taken is not None
            assert not fetched.is_nothing
            given = [
                offset
                for first, last, _ in fetched.taken.acquired
                for offset in range(first, last + 1)
            ]
            assert given == [0, 1]
            assert partition.out == 2

    play(story())
