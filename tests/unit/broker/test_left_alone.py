"""A leader whose other replicas are taken away commits what it has by itself."""

from headrace.broker.in_sync_replicas import Replicas
from headrace.broker.partition import Partition
from headrace.model.nouns import BrokerId, LeaderEpoch
from tests.support.broker import append
from tests.support.log import World

A, B = BrokerId(0), BrokerId(1)


def test_a_leader_left_alone_commits_all_it_has_flushed_and_wakes_who_watches() -> None:
    world = World()
    partition = Partition(world.log(), flusher=world.directory.flusher, flush_on_ack=True)
    pair = Replicas(A, (A, B), (A, B), 0)
    partition.role.lead(LeaderEpoch(5), pair, now=0.0, may_commit=lambda: True)
    append(partition)
    append(partition)
    world.settle()
    assert partition.high_watermark == 0
    woken: list[int] = []
    partition.watch(lambda: woken.append(partition.high_watermark))
    alone = Replicas(A, (A,), (A,), 1)
    partition.role.lead(LeaderEpoch(6), alone, now=2.0, may_commit=lambda: False)
    assert woken == [2]
