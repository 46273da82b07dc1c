"""Several may hold records back, and several may be told of flushes, cuts and failures."""

import pytest

from headrace.config.log_config import LogConfig
from headrace.log.follower_append import follow_start
from headrace.log.log import Log
from headrace.log.retention import apply_retention
from headrace.model.errors import ApiError, ErrorCode, StorageError
from headrace.model.nouns import Offset
from tests.support.log.compaction import COMPACTED, cleaner_of, compact_now, put, rows
from tests.support.log.log import PLACE, FlushListener, World, append, held_from, truncate_to


def test_deleted_records_stop_at_what_anybody_holds_until_it_is_let_go() -> None:
    world = World(config=LogConfig(retention_ms=-1))
    log = world.log()
    append(log, b"0", b"1", b"2", b"3")
    world.flush(log)

    first, second = held_from(3), held_from(1)
    world.directory.holds.add(PLACE, first)
    world.directory.holds.add(PLACE, second)
    with pytest.raises(ApiError) as refused:
        log.delete_records(Offset(2))
    assert refused.value.code is ErrorCode.POLICY_VIOLATION
    assert log.start_offset == 0
    assert log.delete_records(Offset(1)) == 1
    world.directory.holds.remove(PLACE, second)
    assert log.delete_records(Offset(3)) == 3
    world.directory.holds.remove(PLACE, first)
    world.directory.holds.remove(PLACE, first)
    assert log.delete_records(Offset(4)) == 4
    world.close()


def test_follower_deletes_below_its_leaders_start_what_is_held_here() -> None:
    world = World(config=LogConfig(retention_ms=0, segment_bytes=200))
    log = world.log()
    for _ in range(4):
        append(log, b"x" * 100)
    world.flush(log)
    world.directory.holds.holds_all = lambda partition: partition == PLACE
    follow_start(log, Offset(2))
    assert log.start_offset == 2
    assert apply_retention(log, now_ms=1 << 50) == 2, "and not by age"
    follow_start(log, Offset(9))
    assert log.start_offset == 4, "the high watermark"
    follow_start(log, Offset(1))
    assert log.start_offset == 4
    world.close()


def test_a_queue_that_nobody_has_loaded_holds_everything_until_its_cursor_says_what_it_wants() -> (
    None
):
    world = World(config=LogConfig(retention_ms=0, segment_bytes=200))
    log = world.log()
    for _ in range(4):
        append(log, b"x" * 100)
    world.flush(log)
    holds = world.directory.holds
    holds.holds_all = lambda partition: partition == PLACE
    assert holds.wants(PLACE, Offset(3), Offset(4))
    assert apply_retention(log, now_ms=1 << 50) == 0
    with pytest.raises(ApiError) as refused:
        log.delete_records(Offset(1))
    assert refused.value.code is ErrorCode.POLICY_VIOLATION

    cursor = held_from(2)
    holds.add(PLACE, cursor)
    assert [holds.wants(PLACE, Offset(1), below) for below in (Offset(2), Offset(3))] == [
        False,
        True,
    ]
    assert log.delete_records(Offset(2)) == 2
    assert apply_retention(log, now_ms=1 << 50) == 2
    holds.remove(PLACE, cursor)
    assert apply_retention(log, now_ms=1 << 50) == 0, "switched off, it holds what is left"
    holds.holds_all = lambda partition: partition != PLACE
    assert apply_retention(log, now_ms=1 << 50) > 0
    world.close()


def test_what_is_held_is_not_compacted() -> None:
    world = World(config=COMPACTED)
    log = world.log()
    for at in range(30):
        put(log, *[(b"k%d" % key, b"value %d" % at) for key in range(3)])
    world.flush(log)
    held = log.segments[2].base_offset
    world.directory.holds.add(PLACE, held_from(held))
    before = [row for row in rows(log) if row[0] >= held]
    compact_now(world, cleaner_of(world))
    after = rows(log)
    assert [row for row in after if row[0] >= held] == before
    assert len(after) < 90, "what lies below is"
    world.close()


def test_every_listener_is_told_of_a_flush_and_none_that_has_gone() -> None:
    world = World()
    log = world.log()
    one: list[int] = []
    two: list[int] = []
    leaves = FlushListener(one.append)
    log.listen(leaves)
    log.listen(FlushListener(two.append))
    append(log, b"x")
    world.flush(log)
    log.unlisten(leaves)
    append(log, b"y")
    world.flush(log)
    assert (one, two) == ([1], [1, 2])
    world.close()


def test_every_listener_is_told_of_a_cut_and_of_a_failure() -> None:
    class Cuts:
        def __init__(self) -> None:
            self.told: list[Offset | None] = []

        def about_to_cut(self, log: Log, end: Offset | None) -> None:
            self.told.append(end)

    world = World()
    log = world.log()
    listeners = [Cuts(), Cuts()]
    failures: list[OSError] = []
    for listener in listeners:
        world.directory.listen(listener)
        world.directory.on_failure(failures.append)
    append(log, b"x")
    append(log, b"y")
    world.flush(log)
    truncate_to(log, Offset(1))
    world.directory.delete_log(PLACE)
    assert [listener.told for listener in listeners] == [[1, None], [1, None]]
    other = world.log()
    world.settle()
    world.disk.fail_writes()
    with pytest.raises(StorageError):
        append(other, b"z")
    assert len(failures) == 2
    world.disk.heal()
    world.close()


def test_an_epoch_that_was_cut_off_is_noted_again_when_it_appends_again() -> None:
    world = World()
    log = world.log()
    append(log, b"old", epoch=0)
    append(log, b"cut", epoch=3)
    world.flush(log)
    truncate_to(log, Offset(1))
    assert log.epochs.entries == [(0, 0)]
    append(log, b"again", epoch=3)
    assert log.epochs.entries == [(0, 0), (3, 1)]
    world.close()
