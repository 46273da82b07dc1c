"""What `min.insync.replicas` keeps from being appended."""

from dataclasses import replace

import pytest

from headrace.broker.appended import Appended
from headrace.broker.partition import Partition
from headrace.broker.replica.in_sync_replicas import Replicas
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch
from headrace.record.batch import Record, build, parse_header
from tests.support.log.log import CONFIG, NOW_MS, World

A, B = BrokerId(0), BrokerId(1)
ALL, LEADER = -1, 1
TWO = replace(CONFIG, min_insync_replicas=2)


def led(world: World, *assigned: BrokerId) -> Partition:
    """A partition with these replicas, of which the leader alone is in sync."""
    partition = Partition(world.log(), flusher=world.directory.flusher)
    partition.role.lead(LeaderEpoch(5), Replicas(A, assigned, (A,), 0))
    return partition


def append(partition: Partition, acks: int) -> Appended:
    view = memoryview(bytearray(build([Record(0, NOW_MS, None, b"v", ())])))
    return partition.append(view, parse_header(view), now_ms=NOW_MS, required_acks=acks)


def test_too_few_in_sync_replicas_refuse_acks_all_only() -> None:
    partition = led(World(config=TWO), A, B)
    with pytest.raises(ApiError, match=r"1 in-sync replicas of .* is 2") as refused:
        append(partition, ALL)
    assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert append(partition, LEADER).base_offset == 0
    partition.reconfigure(CONFIG)
    assert append(partition, ALL).base_offset == 1


def test_one_replica_is_enough_where_there_is_no_other() -> None:
    world = World(config=TWO)
    partition = led(world, A)
    heard: list[ApiError | None] = []
    partition.when_committed(append(partition, ALL).commit_offset, heard.append)
    world.settle()
    assert heard == [None]
