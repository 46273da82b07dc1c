"""Who is told of a new high watermark, and that nobody is where it stays; runs of batches."""

from dataclasses import replace

import pytest

from headrace.broker.partition import Partition
from headrace.broker.replica.in_sync_replicas import Replicas
from headrace.model.nouns import BrokerId, LeaderEpoch, Offset, TopicPartition
from headrace.record.batch import Record, build, parse_header
from tests.support.log.log import CONFIG, World
from tests.support.processes.broker import append

A, B = BrokerId(0), BrokerId(1)
PAIR = Replicas(A, (A, B), (A, B), 0)
NOW_MS = 1_780_000_000_000


def led(world: World, *, flush_on_ack: bool = True) -> Partition:
    """A partition that is led alone."""
    flusher = world.directory.flusher
    partition = Partition(world.log(), flusher=flusher, flush_on_ack=flush_on_ack)
    partition.role.lead(LeaderEpoch(5))
    append(partition)  # the first of a leader's epoch is appended by itself
    world.settle()
    return partition


def test_readers_are_told_of_a_high_watermark_that_moved_and_of_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    partition = led(world)
    partition.role.lead(LeaderEpoch(6), PAIR, now=0.0, may_commit=lambda: True)
    append(partition)
    append(partition)
    world.settle()
    told: list[TopicPartition] = []
    woken: list[int] = []
    monkeypatch.setattr(
        partition.log.context.events,
        "publish",
        lambda logs: told.extend(log.topic_partition for log in logs),
    )
    partition.watch(lambda: woken.append(partition.high_watermark))
    for upto in (1, 2, 2, 1, 3, 3):
        partition.role.advance(Offset(upto))
    assert told == [partition.topic_partition] * 2
    assert woken == [2, 3]
    assert partition.high_watermark == 3


def batches(count: int) -> list[memoryview]:
    records = [Record(0, NOW_MS, None, b"v", ())]
    return [memoryview(bytearray(build(records))) for _ in range(count)]


def test_a_run_is_appended_whole_and_committed_as_single_batches_are() -> None:
    world = World()
    partition = led(world)
    run = batches(3)
    headers = [parse_header(batch) for batch in run]
    assert partition.append_run(run, headers, now_ms=NOW_MS) == 3
    assert partition.log.end_offset == 4
    assert partition.high_watermark == 1
    world.settle()
    assert partition.high_watermark == 4


@pytest.mark.parametrize(("acks", "upto"), [(-1, 2), (1, 1)])
def test_a_run_is_flushed_at_once_only_where_somebody_waits_for_it(acks: int, upto: int) -> None:
    world = World()
    partition = led(world)
    run = batches(1)
    headers = [parse_header(batch) for batch in run]
    assert partition.append_run(run, headers, now_ms=NOW_MS, required_acks=acks) == 1
    world.clock.turn()
    world.disk.settle()
    world.clock.turn()
    assert partition.high_watermark == upto


def test_a_run_without_flush_on_ack_is_readable_at_once() -> None:
    partition = led(World(), flush_on_ack=False)
    run = batches(2)
    headers = [parse_header(batch) for batch in run]
    assert partition.append_run(run, headers, now_ms=NOW_MS) == 2
    assert partition.high_watermark == 3


def test_a_run_is_left_to_single_appends_where_they_have_something_to_refuse() -> None:
    world = World(config=replace(CONFIG, min_insync_replicas=2))
    partition = led(world)
    run = batches(1)
    headers = [parse_header(batch) for batch in run]
    alone = Replicas(A, (A, B), (A,), 0)
    partition.role.lead(LeaderEpoch(6), alone, now=0.0, may_commit=lambda: True)
    assert partition.role.too_few_replicas
    assert partition.append_run(run, headers, now_ms=NOW_MS) == 0
    partition.role.lead(LeaderEpoch(7), PAIR, now=0.0, may_commit=lambda: True)
    append(partition)
    partition.inspected = True
    assert partition.append_run(run, headers, now_ms=NOW_MS) == 0
    partition.inspected = False
    partition.role.resign()
    assert partition.append_run(run, headers, now_ms=NOW_MS) == 0
    assert partition.log.end_offset == 2


def test_what_nobody_waits_for_is_flushed_after_a_while() -> None:
    world = World()
    partition = led(world)
    run = batches(1)
    headers = [parse_header(batch) for batch in run]
    partition.append_run(run, headers, now_ms=NOW_MS, required_acks=1)
    world.settle()
    world.clock.advance(1)
    world.settle()
    assert partition.high_watermark == 2


def test_a_run_ends_where_another_producer_begins_and_takes_nothing_twice() -> None:
    world = World()
    partition = led(world)
    records = [Record(0, NOW_MS, None, b"v", ())]
    run = [
        memoryview(bytearray(build(records, producer_id=at, producer_epoch=0, base_sequence=0)))
        for at in (7, 8)
    ]
    headers = [parse_header(batch) for batch in run]
    assert partition.append_run(run, headers, now_ms=NOW_MS) == 1
    assert partition.append_run(run[:1], headers[:1], now_ms=NOW_MS) == 0
    assert partition.log.end_offset == 2
