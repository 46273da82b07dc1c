"""What readers may see of a partition whose log start has moved past an open transaction."""

from headrace.broker.partition import Partition
from headrace.model.errors import ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch, Offset
from tests.support.log import World, append


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
