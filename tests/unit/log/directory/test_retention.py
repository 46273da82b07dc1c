"""What shortens a log from its front: age, size, records deleted."""

import errno

import pytest

from headrace.config.log_config import LogConfig
from headrace.log.directory.holds import WantsNothing
from headrace.log.retention import apply_retention
from headrace.model.errors import ApiError, ErrorCode, StorageError
from headrace.model.nouns import Offset
from headrace.testing.disk import SimDisk
from tests.support.log.log import NOW_MS, PLACE, World, append, bases, held_from, values

DAY_MS = 86_400_000


def no_disk(*_: object) -> None:
    raise OSError(errno.EIO, "the disk is gone")


def filled(config: LogConfig, ages_ms: list[int]) -> World:
    world = World(config=config)
    for age in ages_ms:
        append(world.log(), b"x" * 100, timestamp=NOW_MS - age)
        if world.log().end_offset < len(ages_ms):
            world.log().roll()
    world.flush(world.log())
    return world


def test_segments_past_their_time_go_and_the_active_one_is_rolled_first() -> None:
    world = filled(LogConfig(retention_ms=DAY_MS), [3 * DAY_MS, 2 * DAY_MS, 2 * DAY_MS])
    log = world.log()
    assert apply_retention(log, NOW_MS) == 3
    assert (log.start_offset, log.end_offset) == (3, 3)
    assert bases(world) == [3]
    assert [name for name in world.disk.list("/data/t-0") if name.endswith(".log.deleted")]
    left = [name for name in world.disk.list("/data/t-0") if name.endswith(".snapshot")]
    assert left == ["00000000000000000003.snapshot"]
    world.clock.advance(61)
    world.settle()
    assert not [name for name in world.disk.list("/data/t-0") if name.endswith(".deleted")]
    assert append(log, b"next").base_offset == 3
    world.close()


def test_a_young_segment_keeps_what_is_behind_it() -> None:
    world = filled(LogConfig(retention_ms=DAY_MS), [5, 2 * DAY_MS, 2 * DAY_MS])
    assert apply_retention(world.log(), NOW_MS) == 0
    world.close()


def test_a_record_of_the_future_holds_back_what_is_behind_it_and_is_named_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ages = [2 * DAY_MS, -3 * DAY_MS, 2 * DAY_MS, 2 * DAY_MS]
    config = LogConfig(retention_ms=DAY_MS, message_timestamp_after_max_ms=9 * DAY_MS)
    world = filled(config, ages)
    log = world.log()
    assert apply_retention(log, NOW_MS) == 1
    assert apply_retention(log, NOW_MS) == 0
    (said,) = [line for line in caplog.messages if "future" in line]
    assert "segment 1 " in said
    log.config = LogConfig(retention_ms=-1, retention_bytes=1)
    assert apply_retention(log, NOW_MS) == 2, "by size it goes like any other"
    assert apply_retention(log, NOW_MS + 9 * DAY_MS) == 0
    log.config = LogConfig(retention_ms=DAY_MS)
    assert apply_retention(log, NOW_MS + 9 * DAY_MS) == 1
    world.close()


def test_records_without_a_timestamp_go_by_when_their_file_was_written() -> None:
    world = World(config=LogConfig(retention_ms=DAY_MS))
    log = world.log()
    append(log, b"x", timestamp=-1)
    world.flush(log)
    assert apply_retention(log, NOW_MS + DAY_MS - 1000) == 0
    assert apply_retention(log, NOW_MS + DAY_MS + 1000) == 1
    world.close()


def test_only_a_compacted_topics_deleted_records_take_its_segments_along() -> None:
    config = LogConfig(
        retention_ms=DAY_MS, retention_bytes=1, cleanup_policy=frozenset({"compact"})
    )
    world = filled(config, [2 * DAY_MS] * 4)
    log = world.log()
    assert apply_retention(log, NOW_MS) == 0
    log.delete_records(Offset(2))
    assert apply_retention(log, NOW_MS) == 2
    assert (log.start_offset, log.segments[0].base_offset) == (2, 2)
    world.close()


def test_a_log_start_within_a_segment_hides_records_and_keeps_the_file() -> None:
    world = World(config=LogConfig(retention_ms=-1))
    log = world.log()
    append(log, b"0", b"1", b"2")
    append(log, b"3")
    world.flush(log)
    log.delete_records(Offset(3))
    assert apply_retention(log, NOW_MS) == 0
    assert values(log) == {3: b"3"}
    world.settle()
    world.restart(clean=False)
    assert world.log().start_offset == 3
    world.close()


def test_size_deletes_from_the_oldest_on_only_as_much_as_is_over() -> None:
    world = filled(LogConfig(retention_ms=-1, retention_bytes=400), [0, 0, 0, 0])
    size = world.log().segments[0].size
    assert size * 4 - 400 >= size
    assert apply_retention(world.log(), NOW_MS) == (size * 4 - 400) // size
    world.close()


def test_nothing_goes_that_is_held_or_not_committed() -> None:
    world = filled(LogConfig(retention_ms=DAY_MS), [2 * DAY_MS] * 4)
    log = world.log()
    log.context.holds.add(PLACE, held_from(3))
    log.context.holds.add(PLACE, held_from(2))
    log.context.holds.add(PLACE, WantsNothing())
    assert apply_retention(log, NOW_MS) == 2
    log.high_watermark = Offset(2)
    assert apply_retention(log, NOW_MS) == 0
    assert log.start_offset == 2
    world.close()


def test_what_is_just_as_old_as_allowed_stays_and_a_millisecond_later_it_goes() -> None:
    world = filled(LogConfig(retention_ms=DAY_MS), [DAY_MS, 0])
    log = world.log()
    assert apply_retention(log, NOW_MS) == 0
    assert apply_retention(log, NOW_MS + 1) == 1
    world.close()


def test_size_takes_a_segment_that_is_wholly_over_to_the_byte_and_no_byte_less() -> None:
    world = filled(LogConfig(retention_ms=-1), [0, 0, 0])
    log = world.log()
    size = log.segments[0].size
    log.config = LogConfig(retention_ms=-1, retention_bytes=2 * size + 1)
    assert apply_retention(log, NOW_MS) == 0
    log.config = LogConfig(retention_ms=-1, retention_bytes=2 * size)
    assert apply_retention(log, NOW_MS) == 1
    log.config = LogConfig(retention_ms=-1, retention_bytes=0)
    log.high_watermark = Offset(2)
    assert apply_retention(log, NOW_MS) == 1, "nothing that is not committed"
    world.close()


def test_records_before_the_first_one_ever_cannot_be_deleted() -> None:
    world = filled(LogConfig(retention_ms=-1), [0])
    with pytest.raises(ApiError, match="OFFSET_OUT_OF_RANGE"):
        world.log().delete_records(Offset(-1))
    assert world.log().delete_records(Offset(0)) == 0
    world.close()


def test_a_start_one_record_into_a_segment_is_kept_through_a_kill() -> None:
    world = filled(LogConfig(retention_ms=-1), [0])
    append(world.log(), b"another")
    world.flush(world.log())
    assert world.log().delete_records(Offset(1)) == 1
    world.settle()
    world.restart(clean=False)
    assert world.log().start_offset == 1
    world.close()


def test_a_compacted_topic_loses_nothing_to_age_or_size() -> None:
    config = LogConfig(
        retention_ms=DAY_MS, retention_bytes=1, cleanup_policy=frozenset({"compact"})
    )
    world = filled(config, [2 * DAY_MS] * 3)
    assert apply_retention(world.log(), NOW_MS) == 0
    assert len(values(world.log())) == 3
    world.close()


def test_deleted_records_are_gone_at_once_and_after_a_kill() -> None:
    world = filled(LogConfig(retention_ms=-1), [0] * 4)
    log = world.log()
    assert log.delete_records(Offset(2)) == 2
    assert log.delete_records(Offset(1)) == 2
    with pytest.raises(ApiError) as refused:
        log.delete_records(Offset(5))
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    world.settle()
    world.restart(clean=False)
    assert world.log().start_offset == 2
    world.log().high_watermark = world.log().end_offset
    assert apply_retention(world.log(), NOW_MS) == 2
    assert bases(world) == [2, 3]
    world.close()


def test_a_disk_that_takes_no_segment_out_of_service_fences_its_directory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = filled(LogConfig(retention_ms=DAY_MS), [3 * DAY_MS, 2 * DAY_MS, 0])
    monkeypatch.setattr(SimDisk, "rename", no_disk)
    with pytest.raises(StorageError):
        apply_retention(world.log(), NOW_MS)
    assert world.directory.fenced
    monkeypatch.undo()
    world.close()


def test_a_disk_that_deletes_no_file_fences_its_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    world = filled(LogConfig(retention_ms=DAY_MS), [3 * DAY_MS, 2 * DAY_MS, 0])
    assert apply_retention(world.log(), NOW_MS) == 2
    world.settle()
    directory = world.directory
    assert not directory.fenced
    monkeypatch.setattr(SimDisk, "remove", no_disk)
    world.clock.advance(61)
    world.settle()
    assert world.directory.fenced, "its files cannot be deleted"
    monkeypatch.undo()
    world.close()
