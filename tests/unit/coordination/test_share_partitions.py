"""Share partitions are there while what they are of is."""

from pathlib import Path

from headrace.model.errors import ApiError, ErrorCode
from tests.support.coordination.share_room import TOPIC, share_room
from tests.support.processes.broker import play


def test_a_partition_that_closes_ends_its_share_partitions_and_no_others(tmp_path: Path) -> None:
    async def story() -> None:
        async with share_room(tmp_path, partitions=2) as share:
            await share.join("a")
            partitions = share.share.partitions
            closes = await share.partition(0)
            stays = await share.partition(1)
            told: list[ApiError | None] = []
            share.here.broker.stop_partition(TOPIC, 0, delete=True)
            assert partitions.known(closes.key) is None
            assert partitions.known(stays.key) is stays
            closes.acknowledge("a", [], told.append)
            assert [error.code for error in told if error] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
            assert list(partitions) == [stays]
            share.here.broker.stop_partition(TOPIC, 1, delete=True)
            assert list(partitions) == []
            assert not partitions._of_partitions

    play(story())


def test_a_share_partition_that_was_forgotten_begins_anew(tmp_path: Path) -> None:
    async def story() -> None:
        async with share_room(tmp_path) as share:
            await share.join("a")
            partitions = share.share.partitions
            former = await share.partition()
            partitions.forget(former.key)
            again = await share.partition()
            assert again is not former
            assert list(partitions) == [again]
            share.here.broker.stop_partition(TOPIC, 0, delete=True)
            assert list(partitions) == []

    play(story())
