"""What a follower commits of its leader's log, and where it cuts its own."""

import pytest

from headrace.broker.partition import Partition
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch, Offset
from tests.support.log.log import NOW_MS, World, batch_of, values
from tests.support.log.log import append as append_to_log

B = BrokerId(1)


def test_a_follower_commits_what_its_leader_has_and_itself_has_flushed() -> None:
    world = World()
    partition = Partition(world.log(), flusher=world.directory.flusher)
    append_to_log(partition.log, b"old", epoch=1)
    follower = partition.role.follow(B, LeaderEpoch(2))
    world.settle()
    assert partition.high_watermark == 0, "the leader has not said that it has this"
    batch = batch_of(b"new")
    leader = World()
    append_to_log(leader.log(), b"old", epoch=1)
    append_to_log(leader.log(), b"new", epoch=2)
    found = leader.log().read_from_disk(Offset(1), len(batch) + 99, below=Offset(2))
    assert follower.append(memoryview(bytes(found.data)), Offset(9), NOW_MS) == 2
    assert partition.high_watermark == 1, "not flushed yet"
    world.settle()
    assert partition.high_watermark == 2
    follower.append(memoryview(b""), Offset(1), NOW_MS)
    assert partition.high_watermark == 2


@pytest.mark.parametrize(
    ("diverging", "cut"),
    [
        ((4, 3), 3),  # the leader's epoch 4 ended earlier
        ((4, 9), 4),  # ours did
        ((3, 9), 2),  # an epoch that is not known here: where ours below it ended
        ((0, 1), 0),  # before all that is known here
    ],
)
def test_where_a_log_is_cut_follows_from_the_epochs(diverging: tuple[int, int], cut: int) -> None:
    world = World()
    partition = Partition(world.log(), flusher=world.directory.flusher)
    for epoch in (2, 2, 4, 4, 5):
        append_to_log(partition.log, b"v", epoch=epoch)
    follower = partition.role.follow(B, LeaderEpoch(6))
    assert follower.offset_to_cut(LeaderEpoch(diverging[0]), Offset(diverging[1])) == cut


@pytest.mark.parametrize("unclean", [False, True])
def test_committed_records_go_after_an_unclean_election_only(unclean: bool) -> None:
    world = World()
    partition = Partition(world.log(), flusher=world.directory.flusher)
    for value in (b"a", b"b", b"c"):
        append_to_log(partition.log, value, epoch=1)
    world.flush(partition.log)
    follower = partition.role.follow(B, LeaderEpoch(2), unclean=unclean)
    cut = follower.offset_to_cut(LeaderEpoch(1), Offset(2))
    assert cut == (2 if unclean else None)
    assert partition.role.closed is not unclean
    assert values(partition.log) == {0: b"a", 1: b"b", 2: b"c"}
    if not unclean:
        assert partition.refusal is ErrorCode.KAFKA_STORAGE_ERROR
        with pytest.raises(ApiError, match="KAFKA_STORAGE_ERROR"):
            partition.role.lead(LeaderEpoch(3))
