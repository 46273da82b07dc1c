"""What is counted of a topic's traffic, for whom, and how long it is remembered."""

from typing import Any

import pytest

from headrace.broker.partition import Partition
from headrace.model.errors import ApiError
from headrace.model.nouns import LeaderEpoch
from headrace.observe.metrics import Metrics
from headrace.record.batch import Record, build, parse_header
from tests.support.log.log import World
from tests.support.processes.broker import append

NOW_MS = 1_780_000_000_000


def led(world: World) -> Partition:
    partition = Partition(world.log(), flusher=world.directory.flusher)
    partition.role.lead(LeaderEpoch(5))
    append(partition)  # the first of a leader's epoch is appended by itself
    world.settle()
    return partition


def batch(count: int) -> memoryview:
    records = [Record(0, NOW_MS, None, b"value", ()) for _ in range(count)]
    return memoryview(bytearray(build(records)))


def test_what_clients_append_counts_for_the_topic_and_what_coordinators_write_does_not() -> None:
    partition = led(World())
    before = partition.traffic.bytes_in
    many = batch(7)
    partition.append(many, parse_header(many), now_ms=NOW_MS)
    assert partition.traffic.records_in == 1 + 7
    assert partition.traffic.bytes_in == before + len(many)
    partition.append_internal(batch(3), now_ms=NOW_MS)
    assert partition.traffic.records_in == 1 + 7


def test_what_is_refused_or_was_there_before_is_not_counted() -> None:
    partition = led(World())
    producer: dict[str, Any] = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0}
    append(partition, **producer)
    assert partition.traffic.records_in == 2
    assert append(partition, **producer).duplicate
    with pytest.raises(ApiError):
        append(partition, **producer | {"base_sequence": 77})
    assert partition.traffic.records_in == 2


def test_a_run_counts_as_its_batches_would_one_by_one() -> None:
    partition = led(World())
    before = partition.traffic.bytes_in
    run = [batch(2), batch(3), batch(4)]
    headers = [parse_header(one) for one in run]
    assert partition.append_run(run, headers, now_ms=NOW_MS) == 3
    assert partition.traffic.records_in == 1 + 9
    assert partition.traffic.bytes_in == before + sum(len(one) for one in run)


def test_a_topics_counts_are_shared_by_its_partitions_and_go_with_the_last() -> None:
    metrics = Metrics()
    first, second = metrics.traffic("t"), metrics.traffic("t")
    assert first is second
    assert list(metrics.topics) == ["t"]
    del first
    assert list(metrics.topics) == ["t"]
    del second
    assert list(metrics.topics) == []
