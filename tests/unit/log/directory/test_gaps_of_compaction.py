"""Gaps that a cleaner made, ours or another broker's, are no loss; a loss among them is found."""

import logging

import pytest

from headrace.log import file_names
from headrace.log.directory import unchanged_logs
from headrace.log.recovery.gaps import FILE_NAME
from headrace.model.nouns import TopicPartition
from tests.support.log.compaction import (
    COMPACTED,
    cleaner_of,
    compact_now,
    rows,
    superseded,
    with_gaps,
)
from tests.support.log.log import CONFIG, PLACE, World, append, content, overwrite
from tests.support.log.lost_segments import HERE, STOPS, filled, lose, stop


def has_gap(world: World) -> bool:
    log = world.log()
    rows_there = {offset for offset, _, _ in rows(log)}
    return any(one.base_offset - 1 not in rows_there for one in log.segments[1:])


@pytest.mark.parametrize("how", STOPS)
def test_a_gap_that_compaction_made_is_none(how: str) -> None:
    world = with_gaps()
    before = rows(world.log())
    assert has_gap(world)
    for _ in range(2):
        stop(world, how)
        world.start()
        assert not world.directory.quarantined
        assert rows(world.log()) == before
    world.close()


@pytest.mark.parametrize("how", STOPS)
def test_a_gap_above_what_was_compacted_is_a_loss_in_a_compacted_log_too(how: str) -> None:
    world = with_gaps()
    world.directory.checkpoint()
    world.settle()
    bases = [one.base_offset for one in world.log().segments]
    stop(world, how)
    lose(world.disk, bases[-2])
    world.start()
    assert f"offsets {bases[-2]} to {bases[-1] - 1}" in str(world.directory.quarantined[PLACE])
    world.close()


def test_a_cleaner_that_was_killed_before_its_checkpoint_leaves_gaps_that_are_believed() -> None:
    world = World(config=COMPACTED)
    superseded(world)
    compact_now(world, cleaner_of(world))
    before = rows(world.log())
    assert has_gap(world)
    world.disk.remove(f"/data/{file_names.CLEANER_OFFSETS}")  # never written
    for _ in range(2):
        world.restart(clean=False)
        assert not world.directory.quarantined
        assert rows(world.log()) == before
    world.close()


def test_after_a_clean_stop_a_loss_below_what_was_compacted_is_found_and_not_forgotten() -> None:
    world = with_gaps(at_rest=True)
    bases = [one.base_offset for one in world.log().segments]
    assert len(bases) > 3
    stop(world, "stopped")
    lose(world.disk, bases[1])
    for how in ("killed", "stopped", "stopped"):
        world.start()
        told = str(world.directory.quarantined[PLACE])
        assert f"offsets {bases[1]} to {bases[2] - 1} are missing" in told
        world.directory.start()
        world.settle()
        stop(world, how)
    world.close()


def test_what_another_broker_did_after_our_clean_stop_is_not_held_against_it() -> None:
    world = with_gaps(at_rest=True)
    bases = [one.base_offset for one in world.log().segments]
    stop(world, "stopped")
    lose(world.disk, bases[1])  # compacted away by a Kafka, which then stopped cleanly
    path = f"/data/{file_names.RECOVERY_POINTS}"
    points = content(world.disk, path)
    overwrite(world.disk, path, points)
    overwrite(world.disk, f"/data/{file_names.CLEANER_OFFSETS}", b"0\n1\nt 0 30\n")
    world.start()
    assert not world.directory.quarantined
    world.close()


@pytest.mark.parametrize("how", ["killed", "powered off"])
def test_a_loss_below_what_was_compacted_is_found_while_nothing_was_compacted_since(
    how: str,
) -> None:
    world = with_gaps(at_rest=True)
    log = world.log()
    bases = [one.base_offset for one in log.segments]
    world.directory.at_rest.write_soon([log], world.clock)
    world.settle()
    append(log, b"later")
    stop(world, how)
    lose(world.disk, bases[1])
    world.start()
    told = str(world.directory.quarantined[PLACE])
    assert f"offsets {bases[1]} to {bases[2] - 1} are missing" in told
    world.close()


def test_a_segment_that_was_cut_short_is_found_after_a_clean_stop() -> None:
    world = World(at_rest=True)
    bases = filled(world)
    path = world.log().segments[2].path(file_names.LOG)
    stop(world, "stopped")
    world.disk.open(path).truncate(world.disk.open(path).size() // 2)
    overwrite(world.disk, f"{HERE}/touched", b"")
    world.start()
    assert path in str(world.directory.quarantined[PLACE])
    assert bases
    world.close()


def of_a_kafka(world: World) -> None:
    """Take away all that is ours alone."""
    for name in (FILE_NAME, file_names.BOOT_ID, unchanged_logs.FILE_NAME):
        if world.disk.exists(f"/data/{name}"):
            world.disk.remove(f"/data/{name}")


@pytest.mark.parametrize("how", ["stopped", "powered off"])
def test_a_kafka_killed_while_it_cleaned_is_adopted_whole_and_stays_so(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its recovery points and its cleaner's checkpoint are below the gaps."""
    caplog.set_level(logging.WARNING)
    world = with_gaps()
    before = rows(world.log())
    stop(world, how)
    of_a_kafka(world)
    world.disk.remove(f"/data/{file_names.CLEANER_OFFSETS}")
    if how != "stopped":
        overwrite(world.disk, f"/data/{file_names.RECOVERY_POINTS}", b"0\n1\nt 0 2\n")
    world.start()
    assert not world.directory.quarantined
    assert rows(world.log()) == before
    assert any("accepted as removed by compaction" in line for line in caplog.messages)
    for clean in (False, True):
        world.restart(clean=clean)
        assert rows(world.log()) == before
    world.close()


def test_what_a_kafka_compacted_after_us_is_believed() -> None:
    world = World(config=COMPACTED)
    append(world.log(TopicPartition("u", 1)), b"x")
    superseded(world)
    before = content(world.disk, f"/data/{FILE_NAME}")
    compact_now(world, cleaner_of(world))
    left = rows(world.log())
    stop(world, "killed")
    overwrite(world.disk, f"/data/{FILE_NAME}", before)
    world.disk.remove(f"/data/{file_names.CLEANER_OFFSETS}")
    path = f"/data/{file_names.HIGH_WATERMARKS}"
    zero, count, *lines = content(world.disk, path).splitlines(keepends=True)
    assert len(lines) == 2
    overwrite(world.disk, path, b"".join([zero, count, *reversed(lines)]))
    world.start()
    assert not world.directory.quarantined
    assert rows(world.log()) == left
    world.close()


def test_compaction_is_told_by_the_batches_where_nobody_knows_the_topic() -> None:
    world = with_gaps()
    before = rows(world.log())
    stop(world, "stopped")
    of_a_kafka(world)
    world.disk.remove(f"/data/{file_names.CLEANER_OFFSETS}")
    world.config = CONFIG
    world.start()
    assert rows(world.log()) == before
    world.close()


def test_a_hole_in_a_kafka_s_log_that_was_never_compacted_is_a_loss() -> None:
    world = World()
    bases = filled(world)
    stop(world, "stopped")
    of_a_kafka(world)
    lose(world.disk, bases[2])
    world.start()
    assert PLACE in world.directory.quarantined
    world.close()
