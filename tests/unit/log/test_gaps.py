"""A segment that is gone is found at the next start, whatever stopped the broker, and said."""

from dataclasses import replace

import pytest

from headrace.log import file_names
from headrace.log.retention import apply_retention
from headrace.logtools.repair import Mending, repair_directory
from headrace.model.errors import CorruptLogError
from headrace.model.nouns import Offset, TopicPartition
from tests.support.log.log import (
    CONFIG,
    PLACE,
    TOPIC_ID,
    World,
    append,
    content,
    overwrite,
    reset_to,
    truncate_to,
    values,
)
from tests.support.log.lost_segments import HERE, STOPS, filled, lose, stop


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


@pytest.mark.parametrize("how", ["killed", "powered off"])
@pytest.mark.parametrize(("cut", "start"), [(1, None), (4, None), (5, None), (3, 7)])
def test_nothing_is_missing_of_a_log_that_was_cut_and_has_grown_other_segments(
    cut: int, start: int | None, how: str
) -> None:
    """As a follower's, whose leader has other records there, or begins behind the cut."""
    world = World(at_rest=True)
    bases = filled(world)
    world.restart(clean=True)
    log = world.log()
    truncate_to(log, Offset(cut))
    if start is not None:
        reset_to(log, Offset(start))
    for number in range(12):
        append(log, b"%02d" % number * 60, b"", b"")
    world.flush(log)
    now = [segment.base_offset for segment in log.segments]
    assert set(bases[-3:]) - set(now), "some are gone that lie between"
    assert now[-1] > bases[-1]
    there = values(log)
    stop(world, how)
    world.start()
    assert not world.directory.quarantined
    assert values(world.log()) == there
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
        with pytest.raises(CorruptLogError, match="missing, and with it flushed offsets up to 11"):
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
    with pytest.raises(CorruptLogError, match="missing, and with it flushed offsets up to 0"):
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
