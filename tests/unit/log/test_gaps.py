"""A segment that is gone is found at the next start, whatever stopped the broker, and said."""

import logging
from dataclasses import replace

import pytest

from headrace.log import file_names
from headrace.log.directory import unchanged_logs
from headrace.log.recovery.gaps import FILE_NAME
from headrace.log.retention import apply_retention
from headrace.logtools.repair import Mending, repair_directory
from headrace.model.errors import CorruptLogError
from headrace.model.nouns import Offset, TopicPartition
from headrace.testing.disk import SimDisk
from tests.support.compaction import (
    COMPACTED,
    cleaner_of,
    compact_now,
    rows,
    superseded,
    with_gaps,
)
from tests.support.log import (
    CONFIG,
    PLACE,
    TOPIC_ID,
    World,
    append,
    content,
    overwrite,
    truncate_to,
    values,
)

HERE = "/data/t-0"


def filled(world: World, batches: int = 12) -> list[int]:
    """Two batches to a segment, all flushed and told; the base offsets of the segments."""
    log = world.log()
    for number in range(batches):
        append(log, b"%02d" % number * 200)
    world.flush(log)
    log.context.events.publish((log,))
    return [one.base_offset for one in log.segments]


def lose(disk: SimDisk, base: int, *, all_of_it: bool = True) -> None:
    """Remove a segment's `.log`, and what is beside it if `all_of_it`."""
    for suffix in (
        (*file_names.SEGMENT_SUFFIXES, file_names.SNAPSHOT) if all_of_it else (file_names.LOG,)
    ):
        path = f"{HERE}/{file_names.segment_file(base, suffix)}"
        if disk.exists(path):
            disk.remove(path)


def stop(world: World, how: str) -> None:
    """End the process so, the files being closed; `restarted` begins the next one."""
    if how == "powered off":
        world.disk.boot = "another boot"
    world.directory.close(clean=how == "stopped")


STOPS = ["stopped", "killed", "powered off"]


@pytest.mark.parametrize("all_of_it", [True, False], ids=["all files", "its .log"])
@pytest.mark.parametrize("number", [1, 2, 4])
@pytest.mark.parametrize("how", STOPS)
def test_a_sealed_segment_that_is_gone_is_found_and_its_offsets_are_named(
    how: str, number: int, all_of_it: bool, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    bases = filled(world)
    world.directory.checkpoint()
    world.settle()
    stop(world, how)
    lose(world.disk, bases[number], all_of_it=all_of_it)
    before = {name: content(world.disk, f"{HERE}/{name}") for name in world.disk.list(HERE)}
    world.start()
    assert set(world.directory.quarantined) == {PLACE}
    (said,) = [line for line in caplog.messages if "out of service" in line]
    assert f"offsets {bases[number]} to {bases[number + 1] - 1} are missing" in said
    assert HERE in said
    logs = [name for name in before if name.endswith(file_names.LOG)]
    assert [one for one in world.disk.list(HERE) if one.endswith(file_names.LOG)] == logs
    world.close()


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_the_oldest_segment_that_is_gone_is_found(how: str) -> None:
    world = World(at_rest=True)
    bases = filled(world)
    stop(world, how)
    lose(world.disk, bases[0])
    world.start()
    told = str(world.directory.quarantined[PLACE])
    assert f"offsets 0 to {bases[1] - 1} are missing" in told
    world.close()


@pytest.mark.parametrize("checkpointed", [True, False])
@pytest.mark.parametrize("how", STOPS)
def test_the_newest_segment_that_is_gone_is_found_though_no_checkpoint_was_written(
    how: str, checkpointed: bool
) -> None:
    """What readers of the files were told is newer than the recovery points."""
    world = World()
    bases = filled(world)
    if checkpointed or how == "powered off":
        world.directory.checkpoint()
        world.settle()
    stop(world, how)
    lose(world.disk, bases[-1])
    world.start()
    assert f"ends at offset {bases[-1]}" in str(world.directory.quarantined[PLACE])
    world.close()


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_segment_under_another_offset_s_name_is_refused(how: str) -> None:
    for shift in (-1, 1):
        world = World()
        bases = filled(world)
        stop(world, how)
        for suffix in (file_names.LOG, file_names.INDEX, file_names.TIME_INDEX):
            source = f"{HERE}/{file_names.segment_file(bases[2], suffix)}"
            if world.disk.exists(source):
                target = f"{HERE}/{file_names.segment_file(bases[2] + shift, suffix)}"
                world.disk.rename(source, target)
        world.start()
        assert PLACE in world.directory.quarantined, shift
        world.close()


def test_nothing_is_missing_where_retention_and_truncation_have_been() -> None:
    for clean in (True, False):
        world = World(at_rest=True)
        bases = filled(world)
        log = world.log()
        log.config = replace(CONFIG, retention_bytes=2000, file_delete_delay_ms=0)
        apply_retention(log, 0)
        truncate_to(log, Offset(bases[-1]))
        world.restart(clean=clean)
        assert not world.directory.quarantined
        world.restart(clean=clean)
        assert not world.directory.quarantined
        world.close()


# --- compacted logs ------------------------------------------------------------------------------


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


# --- directories of others ----------------------------------------------------------------------


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
    assert any("taken for what compaction has removed" in line for line in caplog.messages)
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


# --- whole partitions ----------------------------------------------------------------------


@pytest.mark.parametrize("how", STOPS)
def test_a_partition_whose_directory_is_gone_is_not_begun_anew(how: str) -> None:
    world = World()
    filled(world)
    append(world.log(TopicPartition("u", 1)), b"there")
    world.directory.checkpoint()
    world.settle()
    stop(world, how)
    world.disk.remove_tree(HERE)
    for _ in range(2):
        world.start()
        assert world.directory.logs.keys() == {TopicPartition("u", 1)}
        with pytest.raises(CorruptLogError, match="is gone, and with it the offsets up to 11"):
            world.directory.create_log(PLACE, TOPIC_ID, CONFIG)
        assert PLACE in world.directory.quarantined
        world.directory.start()
        stop(world, how)
    world.start()
    with pytest.raises(CorruptLogError):
        world.log()
    world.directory.delete_log(PLACE)  # the topic is deleted, and made again
    assert not world.directory.fenced
    world.directory.create_log(PLACE, bytes(range(1, 17)), CONFIG)
    world.settle()
    world.restart(clean=True)
    assert values(world.log()) == {}
    world.close()


def test_a_partition_is_missed_that_was_flushed_and_in_no_checkpoint_yet() -> None:
    world = World()
    for value in (b"flushed and committed", b"flushed"):
        append(world.log(), value)
        world.flush(world.log())
    stop(world, "killed")
    world.disk.remove_tree(HERE)
    world.start()
    assert world.directory.missing == {}, "no checkpoint knows of it"
    with pytest.raises(CorruptLogError, match="is gone, and with it the offsets up to 0"):
        world.log()
    world.close()


def test_checkpoints_of_topics_that_nobody_wants_any_more_are_forgotten() -> None:
    world = World()
    filled(world)
    stop(world, "stopped")
    world.disk.remove_tree(HERE)
    world.start()
    world.directory.start()
    append(world.log(), b"another topic of that name")
    world.close()


# --- what an operator does about it ------------------------------------------------------------


@pytest.mark.parametrize("how", STOPS)
@pytest.mark.parametrize("number", [0, 2, -1])
def test_repair_says_what_is_lost_and_then_the_rest_is_served(how: str, number: int) -> None:
    world = World(at_rest=True)
    bases = filled(world)
    whole = values(world.log())
    world.directory.checkpoint()
    world.settle()
    stop(world, how)
    if number == 0 and how == "powered off":
        return  # what is beside the log is not believed then
    lose(world.disk, bases[number])
    said: list[str] = []
    mending = Mending(world.disk, say=said.append)
    repair_directory(mending, "/data")
    assert said
    world.start()
    assert not world.directory.quarantined
    ends = [*bases[1:], len(whole)]
    gone = range(bases[number], ends[bases.index(bases[number])])
    assert values(world.log()) == {at: whole[at] for at in whole if at not in gone}
    world.restart(clean=False)
    assert not world.directory.quarantined
    world.close()


def test_a_copy_that_is_put_back_is_served() -> None:
    world = World(at_rest=True)
    bases = filled(world)
    whole = values(world.log())
    path = world.log().segments[2].path(file_names.LOG)
    stop(world, "stopped")
    copy = content(world.disk, path)
    lose(world.disk, bases[2])
    world.start()
    assert PLACE in world.directory.quarantined
    stop(world, "stopped")
    overwrite(world.disk, path, copy)
    world.start()
    assert values(world.log()) == whole
    world.close()
