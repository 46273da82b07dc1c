"""Where a partition ends for its readers: open transactions deleted, records not yet flushed."""

import pytest

from headrace.broker.partition import Partition
from headrace.broker.replica.in_sync_replicas import ALONE, Replicas
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch, Offset
from headrace.record.batch import check_produced
from tests.support.log.log import NOW_MS, World, append, batch_of

LEASE = [True]
"""Whether leaders may go on alone."""


def led_with_open_transaction(world: World) -> Partition:
    """A transaction at offsets 0 to 2 is open, 3 is not of it."""
    log = world.log()
    partition = Partition(log, flusher=world.directory.flusher)
    for number in range(3):
        append(log, b"t", producer=(9, 0, number), transactional=True)
    append(log, b"plain")
    partition.role.lead(LeaderEpoch(1))
    world.settle()
    return partition


def test_committed_data_can_be_read_from_where_it_ends() -> None:
    world = World()
    partition = led_with_open_transaction(world)
    assert partition.readable_end(True) == 0
    assert partition.delete_records(3) == 3
    assert partition.readable_end(True) == partition.last_stable_offset == 3
    found = partition.read(partition.readable_end(True), 1 << 20, read_committed=True)
    assert found == (b"", 3), "in range, and nothing to read yet"
    assert partition.delete_records(-1) == partition.readable_end(True) == 4
    world.close()


def test_a_follower_keeps_the_last_stable_offset_at_the_start_it_copies() -> None:
    world = World()
    partition = led_with_open_transaction(world)
    follower = partition.role.follow(BrokerId(2), LeaderEpoch(2))
    follower.move_start(Offset(3))
    assert partition.refusal is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.last_stable_offset == partition.log_start_offset == 3
    world.close()


def appended(partition: Partition) -> None:
    """Append one record with acks=1."""
    view = memoryview(batch_of(b"v"))
    partition.append(view, check_produced(view), now_ms=NOW_MS, required_acks=1)


def partition_of(world: World, *in_sync: int, flush_on_ack: bool = True) -> Partition:
    """Led by broker 1 with these in sync; by it alone, without other replicas, where none are."""
    partition = Partition(world.log(), flusher=world.directory.flusher, flush_on_ack=flush_on_ack)
    one, two = BrokerId(1), BrokerId(2)
    replicas = Replicas(one, (one, two), tuple(map(BrokerId, in_sync))) if in_sync else ALONE
    partition.role.lead(LeaderEpoch(1), replicas, may_commit=lambda: LEASE[0])
    world.settle()
    return partition


@pytest.mark.parametrize("in_sync", [(), (1,)])
def test_a_request_for_the_end_has_an_acks_1_record_flushed_at_once(in_sync: tuple[int]) -> None:
    world = World()
    partition = partition_of(world, *in_sync)
    appended(partition)
    assert (partition.log.end_offset, partition.high_watermark) == (1, 0)
    assert partition.role.awaits_own_flush
    told: list[ApiError | None] = []
    partition.role.when_flushed(told.append)
    assert told == []
    world.clock.turn()  # no time passes: the flush does not gather more
    world.disk.settle()
    assert (told, partition.high_watermark) == ([None], 1)
    partition.role.when_flushed(told.append)
    assert told == [None, None], "all is readable: at once"
    world.close()


def test_requests_for_the_end_do_not_wait_for_followers_or_a_doubtful_lease() -> None:
    world = World()
    for partition in (partition_of(world, 1, 2), partition_of(world, flush_on_ack=False)):
        appended(partition)
        assert not partition.role.awaits_own_flush
        told: list[ApiError | None] = []
        partition.role.when_flushed(told.append)
        assert told == [None]
    LEASE[0] = False
    try:
        partition = partition_of(world, 1)
        appended(partition)
        assert not partition.role.awaits_own_flush
    finally:
        LEASE[0] = True
    world.close()


def test_requests_for_the_end_are_told_when_the_flush_fails() -> None:
    world = World()
    partition = partition_of(world)
    appended(partition)
    told: list[ApiError | None] = []
    partition.role.when_flushed(told.append)
    partition.close(ErrorCode.KAFKA_STORAGE_ERROR)
    assert [error and error.code for error in told] == [ErrorCode.KAFKA_STORAGE_ERROR]
    world.close()
