"""What `headrace cluster` says of partitions that are well and of those that are not."""

import pytest

from headrace.cli.cluster import reassign
from headrace.client.admin.replicas import Reassigning, ReplicaLog
from headrace.client.calls.metadata import Metadata, PartitionMetadata, TopicMetadata
from headrace.client.cluster_health import health_of, rows_of
from headrace.client.standing import Seen
from headrace.client.transport.port import Address
from headrace.model.nouns import TopicPartition


def known(*partitions: PartitionMetadata, controller: int = 1) -> Metadata:
    """A cluster of brokers 1 and 2 with topic `t`."""
    brokers = {1: Address("h", 1), 2: Address("h", 2)}
    topic = TopicMetadata("t", bytes(16), False, partitions)
    return Metadata("c", controller, brokers, dict.fromkeys(brokers), {"t": topic})


def partition(leader: int, replicas: tuple[int, ...], isr: tuple[int, ...]) -> PartitionMetadata:
    return PartitionMetadata(0, leader, 4, replicas, isr, ())


@pytest.mark.parametrize(
    ("found", "status"),
    [
        (partition(1, (1, 2), (1, 2)), ""),
        (partition(2, (1, 2), (1, 2)), "not preferred"),
        (partition(1, (1, 2), (1,)), "under-replicated"),
        (partition(2, (1, 2), (2,)), "under-replicated, not preferred"),
        (partition(-1, (1, 2), (1,)), "offline, under-replicated"),
        (partition(-1, (1, 2), (1, 2)), "offline"),
    ],
)
def test_a_partition_s_status_names_all_that_is_wrong(
    found: PartitionMetadata, status: str
) -> None:
    (row,) = rows_of(known(found), ["t"], {})
    assert row.status == status
    assert health_of(Seen(known(found))).is_healthy == (status in ("", "not preferred"))


def test_a_cluster_without_controller_or_with_replicas_on_no_broker_is_not_healthy() -> None:
    well = partition(1, (1, 2), (1, 2))
    assert health_of(Seen(known(well))).is_healthy
    assert not health_of(Seen(known(well, controller=-1))).is_healthy
    health = health_of(Seen(known(partition(1, (1, 3), (1, 3)))))
    assert (health.missing, health.is_healthy) == ([3], False)


def test_sizes_are_the_leader_s_and_lags_each_replica_s_own() -> None:
    key = TopicPartition("t", 0)
    logs = {1: {key: ReplicaLog(10, 0)}, 2: {key: ReplicaLog(7, 3)}}
    (row,) = rows_of(known(partition(2, (1, 2), (1, 2))), ["t"], logs)
    assert (row.size, row.lags) == (7, {1: 0, 2: 3})
    (row,) = rows_of(known(partition(-1, (1, 2), (1, 2))), ["t"], {1: logs[1]})
    assert (row.size, row.lags) == (None, {1: 0, 2: None})


def test_the_partitions_of_a_topic_that_moves_are_led_by_each_broker_in_turn() -> None:
    assert [reassign._turned((4, 7, 5), index) for index in range(4)] == [
        (4, 7, 5), (7, 5, 4), (5, 4, 7), (4, 7, 5),
    ]  # fmt: skip


def test_a_replica_that_a_move_adds_need_not_be_in_sync() -> None:
    key = TopicPartition("t", 0)
    moving = partition(1, (3, 1, 2), (1, 2))
    move = Reassigning(key, (3, 1, 2), (3,), ())
    (row,) = rows_of(known(moving), ["t"], {}, seen=Seen(known(moving), moves={key: move}))
    assert (row.is_under_replicated, row.status) == (False, "moving, not preferred")
    assert (row.as_json()["moving"], row.as_json()["under_replicated"]) == (True, False)
    (row,) = rows_of(known(moving), ["t"], {})
    assert row.is_under_replicated
    lost = known(partition(1, (3, 1, 2), (1,)))
    (row,) = rows_of(lost, ["t"], {}, seen=Seen(lost, moves={key: move}))
    assert row.is_under_replicated, "one of those that were there is missing"
    removing = Reassigning(key, (1, 2), (), (2,))
    found = known(partition(1, (1, 2), (1,)))
    (row,) = rows_of(found, ["t"], {}, seen=Seen(found, moves={key: removing}))
    assert row.is_under_replicated


@pytest.mark.parametrize(
    ("isr", "needed", "refuses"),
    [
        ((1,), 2, True),
        ((1, 2), 2, False),
        ((1, 2), 3, True),
        ((1, 2, 3), 4, False),
        ((1,), 0, False),
    ],
)
def test_a_partition_refuses_acks_all_below_min_insync_replicas(
    isr: tuple[int, ...], needed: int, refuses: bool
) -> None:
    found = known(partition(1, (1, 2, 3), isr))
    (row,) = rows_of(found, ["t"], {}, seen=Seen(found, in_sync_needed={"t": needed}))
    assert row.refuses_acks_all == refuses
    assert ("refuses acks=all" in row.status) == refuses
    gone = known(partition(-1, (1, 2, 3), isr))
    (row,) = rows_of(gone, ["t"], {}, seen=Seen(gone, in_sync_needed={"t": needed}))
    assert not row.refuses_acks_all, "it refuses everything"


def test_the_lag_is_the_leader_s_end_minus_the_replica_s() -> None:
    key = TopicPartition("t", 0)
    logs = {broker: {key: ReplicaLog(10, 0)} for broker in (1, 2)}
    ends = {1: {key: 900}, 2: {key: 100}}
    (row,) = rows_of(known(partition(1, (1, 2), (1,))), ["t"], logs, ends)
    assert row.lags == {1: 0, 2: 800}
    ends[2][key] = 905
    (row,) = rows_of(known(partition(1, (1, 2), (1,))), ["t"], logs, ends)
    assert row.lags == {1: 0, 2: 0}, "asked later than the leader"
    (row,) = rows_of(known(partition(1, (1, 2), (1,))), ["t"], logs, {1: ends[1]})
    assert row.lags == {1: 0, 2: 0}, "as its broker reports it"
