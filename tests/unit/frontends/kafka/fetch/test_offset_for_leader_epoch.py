"""OffsetForLeaderEpoch through its codec, in every version served."""

from pathlib import Path

import pytest

from headrace.cluster.topics.creation import NewTopic
from headrace.frontends.kafka.fetch import offset_for_leader_epoch
from headrace.testing.disk import SimDisk
from tests.support.admin import ask, codes, nested, versions
from tests.support.net.served import served
from tests.support.processes.broker import Room, play, room

API = served(offset_for_leader_epoch)


async def asked(here: Room, version: int, epoch: int, current: int = -1) -> tuple[str, int, int]:
    """The code, the epoch and its end."""
    partition = nested(
        API, version, "OffsetForLeaderPartition", partition=0, current_leader_epoch=current,
        leader_epoch=epoch,
    )  # fmt: skip
    topic = nested(API, version, "OffsetForLeaderTopic", topic="t", partitions=(partition,))
    answer = await ask(here, API, version, topics=(topic,))
    (found,) = answer.topics[0].partitions
    return codes([found])[0], found.leader_epoch, found.end_offset


@pytest.mark.parametrize("version", versions(API))
def test_an_epochs_end_is_told_in_every_version(tmp_path: Path, version: int) -> None:
    disk = SimDisk()

    async def first() -> None:
        async with room(tmp_path, disk) as here:
            await here.controller.create_topics([NewTopic("t", 1)])
            for _ in range(3):
                here.write("t")

    async def second() -> None:
        async with room(tmp_path, disk) as here:
            epoch = here.broker.partition("t", 0).leader_epoch
            assert epoch > 0
            assert await asked(here, version, 0) == ("NONE", 0, 3)
            assert await asked(here, version, epoch) == ("NONE", epoch, 3)
            assert await asked(here, version, epoch + 1) == ("NONE", -1, -1)
            assert (await asked(here, version, 0, epoch + 1))[0] == "UNKNOWN_LEADER_EPOCH"
            assert (await asked(here, version, 0, 0))[0] == "FENCED_LEADER_EPOCH"

    play(first())
    play(second())
