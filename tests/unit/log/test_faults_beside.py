"""What lies beside the batches when the disk fails: it never says more, or less, than they do."""

import errno

import pytest

from headrace.log.log import Log
from headrace.model.errors import ApiError, ErrorCode, StorageError
from headrace.model.nouns import Offset
from headrace.testing.disk_crash import crash_states
from tests.support.log.log import TOPIC_ID, World, append, append_marker


def transaction_aborted(log: Log) -> None:
    append(log, b"undone", producer=(9, 0, 0), transactional=True)
    append_marker(log, 9, commit=False)


@pytest.mark.parametrize("sticky", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize("number", [0, 1])
def test_a_marker_of_which_nobody_was_told_is_not_in_the_log(number: int, sticky: bool) -> None:
    """Its coordinator writes it again, perhaps elsewhere; the batch, or its entry, failed."""
    world = World()
    log = world.log()
    append(log, b"undone", producer=(9, 0, 0), transactional=True)
    world.flush(log)
    world.disk.fail_writes(number, errno.ENOSPC, sticky=sticky)
    with pytest.raises(StorageError):
        append_marker(log, 9, commit=False)
    assert log.first_unstable_offset() == log.last_stable_offset(log.high_watermark) == 0
    after = World(world.disk.left_by_a_kill())
    assert after.log().end_offset == 1
    assert after.log().first_unstable_offset() == 0
    append_marker(after.log(), 9, commit=True)
    assert after.log().aborted_transactions(Offset(0), Offset(2)) == []
    after.close()
    world.close()


def test_small_files_whose_flush_failed_are_durable_after_the_next_start() -> None:
    """Their pages count as clean: only writing them again brings them to the disk."""
    for number in range(4):
        world = World()
        append(world.log(), b"one", epoch=3)
        world.disk.fail_syncs(number)
        world.flush(world.log())
        assert world.directory.fenced
        left = world.disk.left_by_a_kill()
        world.close()
        after = World(left)
        append(after.log(), b"two", epoch=3)
        after.flush(after.log())
        after.close()
        for state in crash_states(left, len(left.ops), seed=1):
            again = World(state)
            assert again.log().topic_id == TOPIC_ID, number
            assert again.log().epochs.latest == 3
            again.close()


def test_aborts_that_a_start_after_a_kill_has_indexed_again_outlive_the_power() -> None:
    world = World()
    transaction_aborted(world.log())
    world.flush(world.log())
    world.restart(clean=False)
    log = world.log()
    log.roll()
    append(log, b"behind")
    world.flush(log)
    world.directory.checkpoint()
    world.settle()
    for state in crash_states(world.disk, len(world.disk.ops), seed=1):
        after = World(state)
        found = after.log().aborted_transactions(Offset(0), Offset(3))
        assert [one[:3] for one in found] == [(9, 0, 1)]
        after.close()
    world.close()


def test_an_offset_no_index_can_hold_is_damage() -> None:
    """Offsets are under no checksum; here indexes are to be built from one gone wild."""
    world = World(at_rest=True)
    append(world.log(), b"one")
    world.flush(world.log())
    world.directory.at_rest.write_soon(world.directory.logs.values(), world.clock)
    world.settle()
    world.directory.close(clean=False)
    world.disk.flip("/data/t-0/00000000000000000000.log", 1, 0x40)
    after = World(world.disk, at_rest=True)
    log = after.log()
    with pytest.raises(ApiError) as refused:
        log.read(Offset(0), 1, below=log.end_offset)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    after.close()
