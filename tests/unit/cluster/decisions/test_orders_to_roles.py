"""A broker takes its controller's orders: what it leads and follows, and what it must not."""

from collections.abc import Callable, Coroutine
from typing import Any

from headrace.broker.broker import Broker
from headrace.broker.metadata_image import NO_LEADER
from headrace.broker.partition import Partition
from headrace.cluster.decisions.orders import Follow, Lead, Order, Orders, Replication, Stop
from headrace.cluster.membership.applier import Applier
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch, Offset, TopicPartition
from headrace.record.batch import check_produced
from headrace.testing.sim.cluster import SimCluster
from headrace.testing.sim.loop import SimLoop
from tests.support.log.log import NOW_MS, batch_of

ME, OTHER, THIRD = (BrokerId(number) for number in (1, 2, 3))
PLACE = TopicPartition("t", 0)
ID, ANOTHER_ID = bytes(range(16)), bytes(range(1, 17))
LOG = "00000000000000000000.log"


def play(story: Callable[[Broker, Applier], Coroutine[Any, Any, None]]) -> None:
    loop = SimLoop(1)
    cluster = SimCluster(loop, 1)

    async def whole() -> None:
        server = await cluster.start(ME)
        await story(server.broker, server.controller.applier)
        await cluster.stop(ME)

    loop.play(whole())


def replication(
    leader: BrokerId,
    epoch: int,
    *,
    isr: tuple[BrokerId, ...] = (ME, OTHER, THIRD),
    topic_id: bytes = ID,
    is_new: bool = False,
    partition: TopicPartition = PLACE,
) -> Replication:
    replicas = (ME, OTHER, THIRD)
    return Replication(
        partition, topic_id, leader, LeaderEpoch(epoch), isr, replicas, epoch, is_new
    )


async def ordered(applier: Applier, *orders: Order) -> dict[TopicPartition, ErrorCode]:
    return await applier.take(Orders(applier.controller_epoch, -1, orders))


def append(partition: Partition, value: bytes = b"x") -> Offset:
    view = memoryview(batch_of(value))
    return partition.append(view, check_produced(view), now_ms=NOW_MS).commit_offset


def test_a_follower_makes_its_log_empty_and_a_leader_that_is_not_new_makes_none() -> None:
    async def story(broker: Broker, applier: Applier) -> None:
        second = TopicPartition("t", 1)
        failed = await ordered(
            applier,
            Follow(replication(OTHER, 3, isr=(OTHER,))),
            Lead(replication(ME, 3, partition=second)),
        )
        assert failed == {second: ErrorCode.KAFKA_STORAGE_ERROR}
        follower = broker.followed["t", 0].role.follower
        assert follower is not None
        assert (follower.leader, broker.followed["t", 0].leader_epoch) == (OTHER, 3)
        assert broker.found() == [PLACE]
        assert await ordered(applier, Lead(replication(ME, 3, is_new=True, partition=second))) == {}
        assert broker.found() == [PLACE, second]

    play(story)


def test_who_leads_with_others_waits_for_them_and_who_follows_has_no_say() -> None:
    async def story(broker: Broker, applier: Applier) -> None:
        closed: list[Partition] = []
        opened: list[Partition] = []
        broker.closed.append(closed.append)
        broker.opened.append(opened.append)
        await ordered(applier, Lead(replication(ME, 0, is_new=True)))
        partition = broker.partition("t", 0)
        term = partition.role.term
        assert term is not None
        assert term.assigned == term.in_sync == {ME, OTHER, THIRD}
        told: list[ApiError | None] = []
        partition.when_committed(append(partition), told.append)
        await ordered(applier, Follow(replication(OTHER, 1)))
        assert [error and error.code for error in told] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        assert broker.followed["t", 0] is partition
        assert closed == opened == [partition]
        assert partition.log.end_offset == 1
        await ordered(applier, Lead(replication(ME, 2)))
        assert broker.partition("t", 0) is partition
        assert ("t", 0) not in broker.followed
        assert opened == [partition, partition]

    play(story)


def test_a_directory_of_another_topic_is_set_aside_with_all_its_bytes() -> None:
    async def story(broker: Broker, applier: Applier) -> None:
        await ordered(applier, Lead(replication(ME, 5, is_new=True)))
        append(broker.partition("t", 0), b"of the former topic")
        disk, path = broker.disk, broker.directories[0].path
        content = disk.open(f"{path}/t-0/{LOG}").read(0, 1000)
        failed = await ordered(applier, Follow(replication(OTHER, 6, topic_id=ANOTHER_ID)))
        assert failed == {}
        followed = broker.followed["t", 0]
        assert (followed.topic_id, followed.log.end_offset) == (ANOTHER_ID, 0)
        (aside,) = [name for name in disk.list(path) if name.endswith("-stray")]
        assert aside.startswith("t-0.")
        assert bytes(disk.open(f"{path}/{aside}/{LOG}").read(0, 1000)) == bytes(content)
        assert ("t", 0) not in broker.partitions

    play(story)


def test_a_leader_is_not_made_of_another_topics_directory() -> None:
    async def story(broker: Broker, applier: Applier) -> None:
        await ordered(applier, Follow(replication(OTHER, 5)))
        await ordered(applier, Stop(PLACE, ID, LeaderEpoch(5), delete=False))
        failed = await ordered(applier, Lead(replication(ME, 6, topic_id=ANOTHER_ID)))
        assert failed == {PLACE: ErrorCode.KAFKA_STORAGE_ERROR}
        assert not [name for name in broker.disk.list("/data") if name.endswith("-stray")]

    play(story)


def test_a_replica_that_has_stopped_follows_nobody() -> None:
    async def story(broker: Broker, applier: Applier) -> None:
        unfollowed: list[Partition] = []
        broker.unfollowed.append(unfollowed.append)
        await ordered(applier, Follow(replication(OTHER, 3)))
        followed = broker.followed["t", 0]
        await ordered(applier, Stop(PLACE, ID, LeaderEpoch(3), delete=True))
        assert (broker.followed, unfollowed, broker.found()) == ({}, [followed], [])
        assert followed.role.closed

    play(story)


def test_an_older_order_to_follow_is_fenced() -> None:
    async def story(broker: Broker, applier: Applier) -> None:
        await ordered(applier, Follow(replication(OTHER, 3)))
        assert await ordered(applier, Follow(replication(THIRD, 2))) == {
            PLACE: ErrorCode.FENCED_LEADER_EPOCH
        }
        follower = broker.followed["t", 0].role.follower
        assert follower is not None
        assert follower.leader == OTHER

    play(story)


def test_a_replica_of_nobodys_makes_no_log() -> None:
    """An empty one would pass for a whole one at the next start."""

    async def story(broker: Broker, applier: Applier) -> None:
        assert await ordered(applier, Follow(replication(NO_LEADER, 3, isr=(ME,)))) == {}
        assert broker.found() == []
        await ordered(applier, Follow(replication(OTHER, 4, isr=(OTHER,))))
        assert broker.found() == [PLACE]
        await ordered(applier, Follow(replication(NO_LEADER, 5, isr=(OTHER,))))
        follower = broker.followed["t", 0].role.follower
        assert follower is not None
        assert follower.leader == NO_LEADER

    play(story)
