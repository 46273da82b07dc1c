"""Truncation, into what compaction left above all: the log ends where it was asked to."""

from dataclasses import replace

import pytest

from headrace.model.nouns import Offset
from headrace.testing.disk_crash import crash_states
from tests.support.log.compaction import COMPACTED, batches_of, put, rows, with_gaps
from tests.support.log.log import World, append, truncate_to, values


def begins_at(world: World, target: int) -> int:
    """Where a log that is cut at `target` must end: at the batch that holds it, if one does."""
    for header, _ in batches_of(world.log()):
        if header.base_offset <= target <= header.base_offset + header.last_offset_delta:
            return header.base_offset
    return target


ENDS = range(with_gaps().log().end_offset + 1)


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_a_compacted_log_ends_at_any_offset_asked_for_and_does_so_after_a_restart(
    clean: bool,
) -> None:
    for target in ENDS:
        world = with_gaps()
        world.directory.checkpoint()
        world.settle()
        before, end = rows(world.log()), begins_at(world, target)
        kept = [row for row in before if row[0] < end]
        truncate_to(world.log(), Offset(target))
        for _ in range(2):
            log = world.log()
            assert log.end_offset == end, target
            assert log.flushed_offset <= log.end_offset
            assert rows(log) == kept, target
            world.directory.checkpoint()
            world.settle()
            world.restart(clean=clean)
            assert not world.directory.quarantined, target
        put(world.log(), (b"goes on", b"here"))
        assert rows(world.log()) == [*kept, (end, b"goes on", b"here")]
        world.close()


def test_what_a_power_cut_leaves_of_a_truncation_into_a_gap_is_served() -> None:
    for target in ENDS[1::3]:
        world = with_gaps(later=1)
        if target > world.log().end_offset:
            break
        world.directory.checkpoint()
        world.settle()
        before, end = rows(world.log()), begins_at(world, target)
        begun = len(world.disk.ops)
        truncate_to(world.log(), Offset(target))
        put(world.log(), (b"goes on", b"here"))
        world.flush(world.log())
        world.directory.checkpoint()
        world.settle()
        for cut in range(begun, len(world.disk.ops) + 1):
            for left in crash_states(world.disk, cut, seed=1, samples=1):
                after = World(left, config=replace(COMPACTED))
                assert not after.directory.quarantined, (target, cut, after.directory.quarantined)
                held = [row for row in rows(after.log()) if row[1] != b"goes on"]
                assert held == [row for row in before if row[0] < end] or (
                    held == before[: len(held)] and cut < len(world.disk.ops)
                ), (target, cut)
                after.close()
        world.close()


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_a_truncation_of_the_batch_that_holds_the_log_s_start_leaves_a_log_that_is_served(
    clean: bool,
) -> None:
    world = World()
    log = world.log()
    append(log, b"a", b"b", b"c", b"d")
    world.flush(log)
    log.delete_records(Offset(2))
    world.settle()
    truncate_to(log, Offset(3))
    assert log.start_offset <= log.end_offset
    for _ in range(2):
        world.restart(clean=clean)
        assert not world.directory.quarantined
    append(world.log(), b"goes on")
    assert list(values(world.log()).values()) == [b"goes on"]
    world.close()
