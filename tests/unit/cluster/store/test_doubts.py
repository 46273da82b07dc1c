"""Replicas that may lack what was committed: told at registration, out of the ISR, led by who has
most where nobody is sure."""

import asyncio
from functools import partial

import pytest

from headrace.broker.metadata_image import NO_LEADER
from headrace.broker.partition import Partition
from headrace.cluster.membership.directory_notes import UNFLUSHED, read
from headrace.cluster.store import znodes
from headrace.cluster.store.znodes import PartitionState, TopicNode
from headrace.cluster.topics.creation import NewTopic
from headrace.log import file_names, text_files
from headrace.model.errors import ConfigError
from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition
from headrace.record.batch import check_produced
from headrace.testing.sim.cluster import SimCluster
from tests.support.cluster.peer_kit import play, started
from tests.support.log.log import NOW_MS, batch_of
from tests.support.sim.cluster import until

ZERO, ONE, TWO, THREE = (BrokerId(number) for number in range(4))
T0 = TopicPartition("t", 0)
STATE = znodes.state_path("t", 0)


def state(leader: BrokerId, *isr: BrokerId, epoch: int = 5) -> PartitionState:
    return PartitionState(leader, LeaderEpoch(epoch), isr)


def append(partition: Partition, value: bytes) -> None:
    view = memoryview(batch_of(value))
    partition.append(view, check_produced(view), now_ms=NOW_MS)


async def written(cluster: SimCluster) -> PartitionState:
    return znodes.decode_state(STATE, (await cluster.ensemble.session().get(STATE)).value)


async def write(cluster: SimCluster, held: PartitionState) -> None:
    await cluster.ensemble.session().set(STATE, znodes.encode_state(held))


async def made(cluster: SimCluster, *replicas: BrokerId) -> None:
    await cluster.controller().create_topics([NewTopic("t", assignment={0: replicas})])


async def in_sync(cluster: SimCluster, leader: int, *members: BrokerId) -> Partition:
    partitions = cluster.brokers[leader].broker.partitions
    await until(lambda: ("t", 0) in partitions)
    partition = partitions["t", 0]
    await until(
        lambda: partition.role.term is not None and partition.role.term.in_sync == set(members)
    )
    return partition


def test_a_replica_that_was_half_fetched_when_its_broker_stopped_again_is_not_led() -> None:
    """Nobody saw it come back the first time: the store has it in the ISR still."""

    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1, 2)
        await made(cluster, ONE, TWO)
        partition = await in_sync(cluster, 1, ONE, TWO)
        for number in range(5):
            append(partition, b"%d" % number)
        await until(lambda: partition.log.high_watermark == 5)
        for number in (2, 1, 0):
            await cluster.stop(number)
        epoch = (await written(cluster)).leader_epoch
        await write(cluster, PartitionState(ONE, epoch, (ONE, TWO)))
        del cluster.worlds[2]
        for _ in range(2):  # the second time the directory is known, and has no log still
            await cluster.start(2)
            await until(lambda: cluster.brokers[2].broker.image.topics)
            assert (await written(cluster)).leader == NO_LEADER
            assert not list(cluster.brokers[2].broker.logs())
            await cluster.stop(2)
        await cluster.start(2)
        await started(cluster, 1)
        partition = await in_sync(cluster, 1, ONE, TWO)
        assert partition.log.end_offset == 5
        await cluster.stop(1)
        led = cluster.brokers[2].broker.partitions
        await until(lambda: ("t", 0) in led)
        assert led["t", 0].log.end_offset == 5
        await cluster.stop(2)
        await cluster.start(2)  # nothing is in doubt any more
        await until(lambda: ("t", 0) in cluster.brokers[2].broker.partitions)

    play(story)


def test_after_a_power_cut_of_all_the_replica_with_most_leads_once_all_are_back() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1, 2)
        await made(cluster, ONE, TWO)
        partition = await in_sync(cluster, 1, ONE, TWO)
        for number in range(40):
            append(partition, b"%d" % number)
        await until(lambda: partition.log.high_watermark == 40)
        held = await written(cluster)
        await asyncio.gather(*(cluster.cut_power(number) for number in (1, 2)))
        await write(cluster, held)  # the controller went with them: it saw nobody leave
        await cluster.stop(0)
        await started(cluster, 1)
        assert (await written(cluster)).leader == NO_LEADER
        assert set((await written(cluster)).isr) == {ONE, TWO}
        await cluster.stop(1)  # cleanly, and it is in doubt nevertheless
        await started(cluster, 1)
        assert (await written(cluster)).leader == NO_LEADER
        assert set((await written(cluster)).isr) == {ONE, TWO}
        await started(cluster, 2)
        session = cluster.ensemble.session()
        first, second = cluster.brokers[1].broker, cluster.brokers[2].broker
        await until(lambda: ("t", 0) in first.partitions or ("t", 0) in second.partitions)
        leader = first if ("t", 0) in first.partitions else second
        follower = second if leader is first else first
        (log,), (other,) = tuple(leader.logs()), tuple(follower.logs())
        assert log.end_offset >= other.end_offset
        elected = sum(server.metrics.unclean_elections for server in cluster.brokers.values())
        assert elected == 1
        await in_sync(cluster, leader.broker_id, ONE, TWO)
        assert other.end_offset == log.end_offset
        for number in (1, 2):
            node = await session.get(znodes.broker_path(BrokerId(number)))
            assert b"doubtful" not in node.value
            (directory,) = cluster.brokers[number].broker.directories
            note = read(directory)
            assert note is not None
            assert note.acks == UNFLUSHED, "the next start doubts nothing of it"
        assert not (await written(cluster)).recovering

    play(story, log_flush_on_ack="false")


def test_with_flushed_acks_a_power_cut_leaves_nothing_in_doubt() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1)
        await made(cluster, ONE, ZERO)
        append(await in_sync(cluster, 1, ZERO, ONE), b"x")
        await cluster.cut_power(1)
        await started(cluster, 1)
        assert cluster.brokers[0].metrics.unclean_elections == 0
        await until(lambda: ("t", 0) in cluster.brokers[1].broker.followed)

    play(story)


def test_a_partition_that_its_only_broker_never_came_to_make_is_made_when_it_is_back() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1)
        node = TopicNode({0: (ONE,)}, b"i" * 16)
        await cluster.stop(1)
        session = cluster.ensemble.session()
        nobody = znodes.encode_state(state(NO_LEADER, ONE, epoch=1))
        await session.create(STATE, nobody, parents=True)
        await session.set(znodes.topic_path("t"), znodes.encode_topic(node))
        await cluster.stop(0)
        await started(cluster, 0, 1)
        await until(lambda: ("t", 0) in cluster.brokers[1].broker.partitions)

    play(story)


def test_a_file_about_the_directories_that_makes_no_sense_stops_the_start() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0)
        await cluster.stop(0)
        cluster.worlds[0].sim_disk.replace("/data/headrace-directories", b"together=x\n")
        with pytest.raises(ConfigError, match=r"headrace-directories: directory\.id is missing"):
            await cluster.start(0)
        cluster.worlds[0].sim_disk.remove("/data/headrace-directories")
        await cluster.start(0)

    play(story)


async def stopped_with_records(cluster: SimCluster) -> None:
    """Acknowledge records on brokers 1 and 2, the replicas of t-0, and stop all brokers."""
    await started(cluster, 0, 1, 2)
    await made(cluster, ONE, TWO)
    partition = await in_sync(cluster, 1, ONE, TWO)
    for number in range(5):
        append(partition, b"%d" % number)
    await until(lambda: partition.log.high_watermark == 5)
    for number in (2, 1, 0):
        await cluster.stop(number)


async def led_by_nobody(cluster: SimCluster) -> None:
    await started(cluster, 0, 1, 2)
    for number in (1, 2):
        broker = cluster.brokers[number].broker
        image = cluster.brokers[number].broker.image
        await until(partial(image.topics.__contains__, "t"))
        assert ("t", 0) not in broker.partitions
    assert (await written(cluster)).leader == NO_LEADER


def test_a_partition_set_aside_on_all_replicas_is_not_led_empty() -> None:
    async def story(cluster: SimCluster) -> None:
        await stopped_with_records(cluster)
        stray = file_names.stray_directory(T0, b"u" * 16)
        for number in (1, 2):
            disk = cluster.worlds[number].sim_disk
            disk.rename("/data/t-0", f"/data/{stray}")
            for name in (file_names.RECOVERY_POINTS, file_names.HIGH_WATERMARKS):
                disk.replace(f"/data/{name}", b"0\n0\n")
        for _ in range(2):
            await led_by_nobody(cluster)
            for number in (2, 1, 0):
                await cluster.stop(number)
        for number in (1, 2):
            cluster.worlds[number].sim_disk.rename(f"/data/{stray}", "/data/t-0")
        await started(cluster, 0, 1, 2)
        await until(lambda: any(("t", 0) in cluster.brokers[n].broker.partitions for n in (1, 2)))
        for number in (1, 2):
            (log,) = cluster.brokers[number].broker.logs()
            assert log.end_offset == 5

    play(story)


def test_a_replica_lost_once_is_lost_at_the_next_start_too() -> None:
    async def story(cluster: SimCluster) -> None:
        await stopped_with_records(cluster)
        other = text_files.write_partition_metadata(b"o" * 16)
        for number in (1, 2):
            disk = cluster.worlds[number].sim_disk
            disk.replace(f"/data/t-0/{file_names.PARTITION_METADATA}", other)
        await led_by_nobody(cluster)
        for number in (2, 1, 0):
            await cluster.stop(number)
        for number in (1, 2):
            cluster.worlds[number].sim_disk.remove_tree("/data/t-0")
        await led_by_nobody(cluster)

    play(story)
