"""Disks that fail in the middle of a directory's work, power cuts behind what counts as done."""

import errno

import pytest

from headrace.log import file_names, text_files
from headrace.log.directory import unchanged_logs
from headrace.log.directory.new_log import NewLog
from headrace.log.directory.state_files import durable_read_bounds
from headrace.log.follower_append import append_as_follower
from headrace.log.log import Log
from headrace.log.recovery.gaps import AHEAD_OFFSETS, FILE_NAME_NOTED
from headrace.model.errors import ApiError, ErrorCode, StorageError
from headrace.model.nouns import Offset, TopicPartition
from headrace.ports.disk import Stat
from headrace.record import batch as wire
from headrace.testing.disk import SimDisk
from headrace.testing.disk_crash import crash_states
from tests.support.log.log import (
    NOW_MS,
    PLACE,
    TOPIC_ID,
    World,
    append,
    append_marker,
    content,
    overwrite,
    truncate_to,
    values,
)

NOTED = f"/data/{FILE_NAME_NOTED}"


def filled(world: World, count: int = 3, place: TopicPartition = PLACE) -> Log:
    log = world.log(place)
    for number in range(count):
        append(log, b"%d" % number)
    world.flush(log)
    return log


def writing(world: World) -> bool:
    """Whether checkpoints are being written now."""
    return world.directory.checkpoints.writing


def left(world: World) -> SimDisk:
    """The disk after a power cut now that takes all it can."""
    return next(crash_states(world.disk, len(world.disk.ops), 0))


def fetched(*bases: int) -> memoryview:
    """Batches of one record at those offsets, as a leader sends them."""
    built = [
        wire.build([wire.new_record(b"%d" % base)], base_offset=base, leader_epoch=0)
        for base in bases
    ]
    return memoryview(b"".join(built))


# --- truncations ----------------------------------------------------------------------------------


@pytest.mark.parametrize("nth", [0, 1, 2, 3, 4])
def test_a_truncation_whose_syncs_fail_fences_and_no_cached_page_is_believed(nth: int) -> None:
    world = World()
    log = filled(world)
    world.directory.bounds.sync()
    world.disk.fail_syncs(nth, sticky=True)
    done: list[BaseException | None] = []
    world.directory.truncate_logs([(log, Offset(1))], done.append, unclean=True)
    world.settle()
    assert done == [world.directory.failure]
    assert isinstance(world.directory.failure, StorageError)
    assert not log.cutting
    if nth == 0:
        assert world.directory.context.unflushed
    world.close()


def test_a_truncation_to_the_end_or_behind_it_is_none() -> None:
    world = World()
    log = filled(world)
    before = len(world.disk.ops)
    done: list[BaseException | None] = []
    world.directory.truncate_logs([(log, Offset(3))], done.append)
    world.directory.reset_logs([], done.append)
    assert done == [None, None], "at once"
    assert (log.truncations, len(world.disk.ops)) == (0, before)
    truncate_to(log, Offset(2))
    assert log.truncations == 1
    world.close()


def test_logs_beside_one_that_was_deleted_while_files_were_cut_are_cut_on_the_disk_too() -> None:
    shortened = 0
    for steps in range(16):
        world = World()
        places = [TopicPartition("many", number) for number in range(3)]
        logs = [filled(world, 3, place) for place in places]
        done: list[BaseException | None] = []
        world.directory.truncate_logs([(log, Offset(1)) for log in logs], done.append, unclean=True)
        for _ in range(steps):
            _ = world.disk.settle(steps=1) or world.clock.turn()
        shortened += not done
        world.directory.delete_log(places[1])
        world.settle()
        assert done == [None]
        world.restart(clean=False)
        assert [values(world.log(places[at])) for at in (0, 2)] == [{0: b"0"}, {0: b"0"}], steps
        world.close()
    assert shortened > 3


def test_a_cut_within_a_gap_is_noted_durably_before_any_file_is_cut() -> None:
    world = World()
    log = filled(world, 1)
    append_as_follower(log, fetched(1, 5), NOW_MS)
    world.flush(log)
    world.directory.gaps.forget(PLACE)
    world.disk.remove(NOTED)
    world.disk.sync_directory("/data")
    began = len(world.disk.ops)
    truncate_to(log, Offset(4))
    assert log.end_offset == 4
    for cut in range(began, len(world.disk.ops) + 1):
        found = next(crash_states(world.disk, cut, 0))
        if len(content(found, f"/data/{PLACE}/{0:020d}.log")) < 200:
            assert text_files.read_offsets(content(found, NOTED), NOTED) == {PLACE: 4}
    assert len(content(left(world), f"/data/{PLACE}/{0:020d}.log")) < 200
    world.close()
    assert world.disk.open_files == 0


def test_a_noted_gap_is_durable_where_no_checkpoint_has_to_be_written() -> None:
    world = World()
    log = filled(world, 2)
    world.directory.checkpoint()
    world.settle()
    append_as_follower(log, fetched(2, 5), NOW_MS)
    world.directory.gaps.forget(PLACE)
    world.disk.remove(NOTED)
    overwrite(world.disk, f"{NOTED}.tmp", b"left over by a kill, and longer than what is written")
    world.disk.sync_directory("/data")
    truncate_to(log, Offset(4))
    assert text_files.read_offsets(content(left(world), NOTED), NOTED) == {PLACE: 4}
    world.close()


def test_a_cut_whose_gap_cannot_be_noted_is_refused_and_the_directory_fenced() -> None:
    world = World()
    log = filled(world, 1)
    append_as_follower(log, fetched(1, 5), NOW_MS)
    world.flush(log)
    world.directory.gaps.forget(PLACE)
    world.disk.fail_writes()
    done: list[BaseException | None] = []
    world.directory.truncate_logs([(log, Offset(4))], done.append, unclean=True)
    world.settle()
    assert done == [world.directory.failure]
    assert world.directory.fenced
    assert not log.cutting
    world.close()


# --- appends --------------------------------------------------------------------------------------


def test_a_gap_that_a_follower_copies_is_durable_with_the_records_behind_it() -> None:
    world = World()
    log = filled(world, 1)
    assert append_as_follower(log, fetched(1, 5, 9), NOW_MS) == 10
    assert world.directory.gaps_below(PLACE) == AHEAD_OFFSETS
    append_as_follower(log, fetched(12), NOW_MS)
    world.flush(log)
    after = left(world)
    assert text_files.read_offsets(content(after, NOTED), NOTED) == {PLACE: AHEAD_OFFSETS}
    world.close()
    again = world.after_power_cut(after)
    assert again.log().end_offset == 13
    again.close()


def test_a_gap_that_cannot_be_noted_is_not_copied() -> None:
    world = World()
    log = filled(world, 1)
    world.disk.fail_writes()
    with pytest.raises(StorageError):
        append_as_follower(log, fetched(5), NOW_MS)
    assert log.end_offset == 1
    assert world.directory.failure is not None
    assert "/data" in str(world.directory.failure)
    world.close()


@pytest.mark.parametrize("follows", [False, True])
def test_what_a_failed_append_wrote_in_part_is_cut_off_again(follows: bool) -> None:
    world = World()
    log = filled(world, 1)
    path = f"/data/{PLACE}/{0:020d}.log"
    before = content(world.disk, path)
    world.disk.fail_writes(partial=20, sticky=False)
    with pytest.raises(StorageError):
        append_as_follower(log, fetched(1), NOW_MS) if follows else append(log, b"torn")
    assert content(world.disk, path) == before
    assert log.end_offset == 1
    assert world.directory.fenced
    world.close()


def test_a_new_segment_is_there_after_a_power_cut_once_its_records_are_flushed() -> None:
    world = World()
    log = filled(world, 2)
    log.roll()
    append(log, b"in the next")
    world.flush(log)
    world.close()
    again = world.after_power_cut(left(world))
    assert values(again.log()) == {0: b"0", 1: b"1", 2: b"in the next"}
    assert [segment.base_offset for segment in again.log().segments] == [0, 2]
    again.close()


def test_the_names_of_a_segments_first_abort_and_of_a_snapshot_are_durable_with_the_flush() -> None:
    world = World()
    log = filled(world, 1)
    append(log, b"undone", producer=(7, 0, 0), transactional=True)
    world.flush(log)
    append_marker(log, 7, commit=False)
    world.flush(log)
    name = f"/data/{PLACE}/{0:020d}.txnindex"
    assert content(left(world), name) == content(world.disk, name) != b""
    log.roll()
    append(log, b"x")
    world.flush(log)
    assert left(world).exists(f"/data/{PLACE}/{log.snapshot_offset:020d}.snapshot")
    world.close()


def test_a_clean_stop_leaves_all_of_a_new_log_on_the_disk() -> None:
    world = World()
    log = world.log()
    append(log, b"a")
    world.directory.close()
    after = left(world)
    assert content(after, f"/data/{PLACE}/{0:020d}.log") == content(
        world.disk, f"/data/{PLACE}/{0:020d}.log"
    )
    again = world.after_power_cut(after)
    assert values(again.log()) == {0: b"a"}
    again.close()


def test_records_are_deleted_up_to_the_high_watermark_by_a_log_that_works() -> None:
    world = World()
    log = filled(world)
    log.high_watermark = Offset(2)
    for before in (3, -1):
        with pytest.raises(ApiError) as refused:
            log.delete_records(Offset(before))
        assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.delete_records(Offset(0)) == 0
    assert not writing(world), "nothing has moved"
    assert log.delete_records(Offset(2)) == 2
    assert writing(world)
    assert log.delete_records(Offset(1)) == 2
    world.settle()
    log.cutting = True
    with pytest.raises(ApiError) as refused:
        log.delete_records(Offset(2))
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    log.cutting = False
    world.directory.context.fail(OSError(errno.EIO, "broken"), "/data")
    with pytest.raises(StorageError):
        log.delete_records(Offset(2))
    world.close()


# --- files of the directory -----------------------------------------------------------------------


def test_preparing_what_is_there_or_in_a_fenced_directory_is_over_at_once() -> None:
    world = World()
    filled(world)
    done: list[BaseException | None] = []
    new = NewLog(PLACE, TOPIC_ID, world.config)
    world.directory.prepare_logs([new], done.append)
    assert done == [None]
    world.directory.context.fail(OSError(errno.EIO, "broken"), "/data")
    other = NewLog(TopicPartition("u", 0), TOPIC_ID[::-1], world.config)
    world.directory.prepare_logs([other], done.append)
    assert done == [None, None]
    world.settle()
    assert not world.directory.prepared(other.topic_partition)
    world.close()


@pytest.mark.parametrize("count", [3, 60])
def test_read_bounds_far_apart_and_side_by_side_say_each_its_own(count: int) -> None:
    world = World()
    places = [TopicPartition("many", number) for number in range(count)]
    for place in places:
        append(world.log(place), b"x", b"y")
    for rounds in ([0], [0, count - 1], range(count)):
        for number in rounds:
            log = world.log(places[number])
            append(log, b"z")
            log.flushed(log.flush_work())
            log.high_watermark = log.flushed_offset
        world.directory.bounds.publish([world.log(places[number]) for number in rounds])
        path = f"/data/{durable_read_bounds.NAME}"
        said = durable_read_bounds.read_slots(content(world.disk, path), path)
        for number, place in enumerate(places):
            log = world.log(place)
            end = log.high_watermark
            assert said[TOPIC_ID, number] == (0, end, end)
    assert world.disk.stat(f"/data/{durable_read_bounds.NAME}").size == 48 * (count + 1)  # type: ignore[union-attr]
    world.close()


@pytest.mark.parametrize(
    ("age_ns", "believed"), [(2_000_000_000, True), (1_999_999_999, False), (0, False)]
)
@pytest.mark.parametrize("which", ["directory", "file"])
def test_a_log_that_changed_within_two_seconds_is_not_noted_at_rest(
    age_ns: int, believed: bool, which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(at_rest=True)
    log = filled(world)
    stat = SimDisk.stat

    def aged(disk: SimDisk, path: str) -> Stat | None:
        found = stat(disk, path)
        mine = path == log.directory if which == "directory" else path.endswith(".log")
        if found is None or not mine:
            return found
        return Stat(found.size, NOW_MS * 1_000_000 - age_ns)

    monkeypatch.setattr(SimDisk, "stat", aged)
    world.directory.at_rest.write_soon([log], world.clock)
    world.settle()
    rows = content(world.disk, f"/data/{unchanged_logs.FILE_NAME}")
    assert (log.topic_id.hex().encode() in rows) is believed
    world.close()


def test_a_disk_that_takes_no_rows_of_logs_at_rest_fences_the_directory() -> None:
    world = World()
    log = filled(world)
    world.disk.fail_writes()
    world.directory.at_rest.write_soon([log], world.clock)
    world.settle()
    assert not world.directory.at_rest.writing
    assert world.directory.fenced
    world.close()


def test_a_start_notes_durably_that_gaps_are_known_from_now_on() -> None:
    world = World()
    assert world.directory.gaps.known
    filled(world)
    world.close()
    after = left(world)
    assert after.exists("/data/headrace-gap-offset-checkpoint")
    assert after.exists(f"/data/{file_names.BOOT_ID}")


def test_a_directory_whose_flush_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()

    def planted(_: object) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(world.disk, "sync_directories", planted)
    log = filled(world, 1)
    assert log.high_watermark == 0
    assert str(world.directory.failure) == f"{log.directory}: broken"
    world.close()
