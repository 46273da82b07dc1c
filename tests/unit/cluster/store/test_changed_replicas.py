"""Replicas whose log was changed outside of replication are in doubt, and fetched again.

After any change to one replica, bytes below the high watermark are equal on all ISR members, and no
acknowledged record is lost.
"""

import asyncio

import pytest

from headrace.broker.metadata_image import NO_LEADER
from headrace.broker.partition import Partition
from headrace.cluster.decisions.events import ElectionType
from headrace.cluster.store import stored_doubts as doubts
from headrace.cluster.store import znodes
from headrace.cluster.store.stored_doubts import LOST, OLDER, REPAIRED, Doubt
from headrace.cluster.store.znodes import PartitionState
from headrace.cluster.topics.creation import NewTopic
from headrace.log.directory import given_up
from headrace.model.nouns import BrokerId, LeaderEpoch, Offset, TopicPartition
from headrace.record.batch import check_produced
from headrace.testing.disk import SimDisk
from headrace.testing.sim.cluster import SimCluster
from tests.support.cluster.changed_replicas import (
    CHANGES,
    Change,
    committed,
    cut,
    delete_directory,
    delete_with_checkpoints,
    image_of,
    repair,
    restore_image,
)
from tests.support.cluster.peer_kit import play, started
from tests.support.log.log import NOW_MS, batch_of
from tests.support.sim.cluster import until

ZERO, ONE, TWO, THREE = (BrokerId(number) for number in range(4))
DATA = "/data"
T0 = TopicPartition("t", 0)
STATE = znodes.state_path("t", 0)
RECORDS = 40


async def made(cluster: SimCluster, *replicas: BrokerId) -> None:
    await cluster.controller().create_topics([NewTopic("t", assignment={0: replicas})])


async def state(cluster: SimCluster) -> PartitionState:
    return znodes.decode_state(STATE, (await cluster.ensemble.session().get(STATE)).value)


async def in_sync(cluster: SimCluster, leader: int, *members: BrokerId) -> Partition:
    partitions = cluster.brokers[leader].broker.partitions
    await until(lambda: ("t", 0) in partitions)
    partition = partitions["t", 0]
    await until(
        lambda: partition.role.term is not None and partition.role.term.in_sync == set(members)
    )
    return partition


async def filled(partition: Partition, count: int) -> None:
    for number in range(count):
        view = memoryview(batch_of(b"%06d" % number * 50))
        partition.append(view, check_produced(view), now_ms=NOW_MS)
        await asyncio.sleep(0.001)
    await until(lambda: partition.log.high_watermark == partition.log.end_offset)


def disk_of(cluster: SimCluster, number: int) -> SimDisk:
    return cluster.worlds[number].sim_disk


def bytes_of(cluster: SimCluster, number: int, below: int) -> bytes:
    return committed(disk_of(cluster, number), f"{DATA}/{T0}", below)


def partition_of(cluster: SimCluster, leader: int) -> Partition:
    return cluster.brokers[leader].broker.partitions["t", 0]


async def judge(cluster: SimCluster, acknowledged: int) -> None:
    """Nothing acknowledged is lost, and who is in sync has the same bytes."""
    held = await state(cluster)
    assert held.leader != NO_LEADER
    await until(lambda: ("t", 0) in cluster.brokers[held.leader].broker.partitions)
    log = partition_of(cluster, held.leader).log
    await until(lambda: log.high_watermark >= acknowledged)
    led = bytes_of(cluster, held.leader, acknowledged)
    for member in held.isr:
        assert bytes_of(cluster, member, acknowledged) == led


async def led_by(cluster: SimCluster, *others: int) -> None:
    """Wait for a leader among these."""
    await until(
        lambda: any(
            ("t", 0) in cluster.brokers[number].broker.partitions
            for number in others
            if number in cluster.brokers
        )
    )


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_changed_replica_is_not_in_sync_until_it_has_the_leaders_bytes(
    change: Change, clean: bool
) -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1, 2, 3)
        await made(cluster, ONE, TWO, THREE)
        partition = await in_sync(cluster, 1, ONE, TWO, THREE)
        await filled(partition, RECORDS)
        await cluster.stop(1)
        image = image_of(disk_of(cluster, 1), DATA)
        await cluster.start(1)
        await led_by(cluster, 2, 3)
        leader = (await state(cluster)).leader
        partition = await in_sync(cluster, leader, ONE, TWO, THREE)
        await filled(partition, RECORDS)
        acknowledged = 2 * RECORDS
        if clean:
            await cluster.stop(1)
        else:
            cluster.kill(1)  # its session goes on: it is in the ISR when it is back
        change(disk_of(cluster, 1) if clean else cluster.world(1).sim_disk, DATA, str(T0), image)
        await cluster.start_again(1)
        await until(lambda: cluster.brokers[1].broker.image.topics)
        await asyncio.sleep(0.05)
        await judge(cluster, acknowledged)
        await cluster.stop(leader)
        await judge(cluster, acknowledged)

    play(story, log_segment_bytes="4096")


@pytest.mark.parametrize("change", [delete_directory, repair, cut, restore_image])
def test_a_changed_replica_joins_again_once_it_was_fetched_anew(change: Change) -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1, 2)
        await made(cluster, ONE, TWO)
        await filled(await in_sync(cluster, 1, ONE, TWO), RECORDS)
        await cluster.stop(1)
        image = image_of(disk_of(cluster, 1), DATA)
        await cluster.start(1)
        partition = await in_sync(cluster, 2, ONE, TWO)
        await filled(partition, RECORDS)
        cluster.kill(1)
        change(cluster.world(1).sim_disk, DATA, str(T0), image)
        await cluster.start_again(1)
        await in_sync(cluster, 2, ONE, TWO)
        whole = bytes_of(cluster, 2, 2 * RECORDS)
        assert bytes_of(cluster, 1, 2 * RECORDS) == whole
        assert given_up.read(disk_of(cluster, 1), DATA) == {}
        cluster.kill(1)  # and is no other one's at the next start
        await cluster.start_again(1)
        await asyncio.sleep(1)
        assert set((await state(cluster)).isr) == {ONE, TWO}
        assert bytes_of(cluster, 1, 2 * RECORDS) == whole

    play(story, log_segment_bytes="4096")


@pytest.mark.parametrize(
    "change", [delete_directory, delete_with_checkpoints, repair, cut, restore_image]
)
def test_a_changed_replica_waits_for_a_sound_one_where_all_were_down(change: Change) -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1, 2)
        await made(cluster, ONE, TWO)
        await filled(await in_sync(cluster, 1, ONE, TWO), RECORDS)
        await cluster.stop(1)
        image = image_of(disk_of(cluster, 1), DATA)
        await cluster.start(1)
        await filled(await in_sync(cluster, 2, ONE, TWO), RECORDS)
        held = await state(cluster)
        for number in (0, 1, 2):
            cluster.kill(number)
        session = cluster.ensemble.session()
        await session.set(STATE, znodes.encode_state(held))  # nobody was there to see them leave
        change(cluster.world(1).sim_disk, DATA, str(T0), image)
        await cluster.start_again(1)
        for _ in range(2):  # another start in between does not change its mind
            await until(lambda: cluster.brokers[1].broker.image.topics)
            assert (await state(cluster)).leader != ONE
            await cluster.stop(1)
            await cluster.start(1)
        await cluster.start_again(2)
        await in_sync(cluster, 2, ONE, TWO)
        await judge(cluster, 2 * RECORDS)

    play(story, log_segment_bytes="4096")


def test_the_only_member_in_sync_is_not_elected_with_an_older_copy() -> None:
    """Those outside of the ISR may have more: an operator decides."""

    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1, 2)
        await made(cluster, ONE, TWO)
        await filled(await in_sync(cluster, 1, ONE, TWO), RECORDS)
        await cluster.stop(2)
        await cluster.stop(1)
        image = image_of(disk_of(cluster, 1), DATA)
        await cluster.start(1)
        await cluster.start(2)
        await filled(await in_sync(cluster, 1, ONE, TWO), RECORDS)
        await cluster.stop(2)
        await cluster.stop(1)
        assert (await state(cluster)).isr == (ONE,)
        restore_image(disk_of(cluster, 1), DATA, str(T0), image)
        await started(cluster, 1, 2)
        await asyncio.sleep(1)
        assert (await state(cluster)).leader == NO_LEADER
        registration = (await cluster.ensemble.session().get(znodes.broker_path(ONE))).value
        known = znodes.decode_doubts("", registration)[T0]
        assert (known.end, known.cause) == (RECORDS, OLDER)

    play(story, log_segment_bytes="4096")


def test_the_only_member_in_sync_is_not_elected_without_its_log() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1)
        await made(cluster, ONE)
        await led_by(cluster, 1)
        await filled(partition_of(cluster, 1), RECORDS)
        await cluster.stop(1)
        image = image_of(disk_of(cluster, 1), DATA)
        delete_directory(disk_of(cluster, 1), DATA, str(T0), image)
        for _ in range(2):  # another start does not change its mind
            await started(cluster, 1)
            await asyncio.sleep(1)
            assert (await state(cluster)).leader == NO_LEADER
            await cluster.stop(1)

    play(story, log_segment_bytes="4096")


def test_a_directory_is_no_older_copy_after_a_kill(caplog: pytest.LogCaptureFixture) -> None:
    """The file has the next stamp before the store has: either of them is the present one."""

    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1, 2)
        await made(cluster, ONE, TWO)
        await filled(await in_sync(cluster, 1, ONE, TWO), RECORDS)
        for seconds in (0, 0.0005, 0.001, 0.002, 0.005, 37, 37, 59.9, 0.1002):
            await asyncio.sleep(seconds)
            cluster.kill(2)
            await cluster.start_again(2)
            await in_sync(cluster, 1, ONE, TWO)
        assert "older copy" not in caplog.text

    play(story, log_segment_bytes="4096")


@pytest.mark.parametrize("records", [0, 3])
def test_a_lost_disk_of_the_only_replica_begins_empty_where_that_is_asked_for(
    records: int,
) -> None:
    """`headrace cluster elect-leaders --unclean`, as docs/cluster.md has it."""

    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1)
        await made(cluster, ONE)
        partitions = cluster.brokers[1].broker.partitions
        await until(lambda: ("t", 0) in partitions)
        await filled(partitions["t", 0], 5)
        cluster.replace_disk(1)
        await cluster.start_again(1)
        await asyncio.sleep(1)
        assert (await state(cluster)).leader == NO_LEADER
        await cluster.elect("t", ElectionType.UNCLEAN)
        await led_by(cluster, 1)
        await filled(partition_of(cluster, 1), records)
        cluster.kill(1)
        await cluster.start_again(1)
        await led_by(cluster, 1)
        assert partition_of(cluster, 1).log.end_offset == records

    play(story)


@pytest.mark.parametrize("seed", range(3))
def test_an_older_copy_is_no_older_copy_once_its_replicas_follow(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:

    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1, 2)
        await made(cluster, ONE, TWO)
        await filled(await in_sync(cluster, 1, ONE, TWO), RECORDS)
        image = image_of(disk_of(cluster, 2), DATA)
        await asyncio.sleep(125)
        cluster.kill(2)
        restore_image(cluster.world(2).sim_disk, DATA, str(T0), image)
        for _ in range(3):
            await cluster.start_again(2)
            await in_sync(cluster, 1, ONE, TWO)
            cluster.kill(2)
        assert caplog.text.count("an older copy of a log directory") == 1

    play(story, seed, log_segment_bytes="4096")


def test_an_image_of_a_running_broker_is_recognised_a_minute_later() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1, 2)
        await made(cluster, ONE, TWO)
        await filled(await in_sync(cluster, 1, ONE, TWO), RECORDS)
        image = image_of(disk_of(cluster, 2), DATA)
        await asyncio.sleep(125)
        await filled(partition_of(cluster, 1), RECORDS)
        cluster.kill(2)
        restore_image(cluster.world(2).sim_disk, DATA, str(T0), image)
        starting = asyncio.get_running_loop().create_task(cluster.start_again(2))
        await starting
        assert TWO not in (await state(cluster)).isr
        await in_sync(cluster, 1, ONE, TWO)
        await judge(cluster, 2 * RECORDS)

    play(story, log_segment_bytes="4096")


def test_causes_stand_third_in_a_registration_which_others_pass_over() -> None:
    known = {T0: Doubt(LeaderEpoch(3), Offset(9), REPAIRED), TopicPartition("t", 1): LOST}
    assert doubts.encode(known) == {"t": {"0": [3, 9, "repaired"], "1": None}}
    assert doubts.decode(doubts.encode(known)) == known
    assert doubts.decode({"t": {"0": [3, 9, "a later one", 1]}})[T0].cause == "a later one"
