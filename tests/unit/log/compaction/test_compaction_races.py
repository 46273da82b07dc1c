"""What happens to a log while it is compacted: compaction gives way, readers notice nothing."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from headrace.config.log_config import LogConfig
from headrace.log.compaction.cleaner import LogCleaner
from headrace.log.log import Log, ReadResult
from headrace.log.retention import apply_retention
from headrace.model.nouns import Offset
from headrace.record import batch as wire
from tests.support.log.compaction import (
    COMPACTED,
    batches_of,
    cleaner_of,
    compact_now,
    newest,
    put,
    rows,
)
from tests.support.log.log import NOW_MS, PLACE, TOPIC_ID, World, truncate_to

SMALL = replace(
    COMPACTED, segment_bytes=400, cleanup_policy=frozenset({"compact", "delete"}), retention_ms=-1
)


def filled(world: World) -> Log:
    log = world.log()
    for at in range(40):
        put(log, *[(b"k%d" % ((at + one) % 6), b"value %d.%d" % (at, one)) for one in range(3)])
    world.flush(log)
    return log


def begun(world: World, cleaner: LogCleaner, steps: int) -> None:
    """Let a compaction begin, and stop the world after so many steps of the disk."""
    world.clock.advance(1.0)
    world.clock.turn()
    for _ in range(steps):
        world.disk.settle(1)
        world.clock.turn()


def steps_of(make: Callable[[], World]) -> int:
    """Steps of the disk until a whole compaction is done."""
    world = make()
    cleaner = cleaner_of(world)
    world.clock.advance(1.0)
    world.clock.turn()
    steps = 0
    while cleaner.compactions == 0:
        world.disk.settle(1)
        world.clock.turn()
        steps += 1
        assert steps < 500
    return steps


def made() -> World:
    world = World(config=SMALL)
    filled(world)
    return world


def retention(world: World, log: Log) -> None:
    log.delete_records(Offset(log.segments[3].base_offset))
    world.directory.apply_retention()


def truncation(world: World, log: Log) -> None:
    truncate_to(log, Offset(log.segments[-1].base_offset + 1))
    log.high_watermark = log.flushed_offset


def policy(world: World, log: Log) -> None:
    log.config = replace(log.config, cleanup_policy=frozenset({"delete"}))


def nothing(world: World, log: Log) -> None:
    put(log, (b"k0", b"one more"))


@pytest.mark.parametrize(
    "disturb", [retention, truncation, policy, nothing], ids=lambda one: one.__name__
)
def test_whatever_happens_at_any_step_of_a_compaction_no_live_record_is_lost(
    disturb: Callable[[World, Log], None],
) -> None:
    for steps in range(steps_of(made) + 1):
        world = made()
        log = world.log()
        cleaner = cleaner_of(world)
        begun(world, cleaner, steps)
        disturb(world, log)
        wanted = newest(rows(log))
        world.settle()
        world.flush(log)
        assert newest(rows(log)) == wanted, steps
        compact_now(world, cleaner)
        compact_now(world, cleaner)
        assert newest(rows(log)) == wanted, steps
        assert not cleaner.uncleanable
        left = world.disk.list(log.directory)
        assert not [name for name in left if name.endswith((".cleaned", ".swap"))], steps
        world.restart(clean=bool(steps % 2))
        assert newest(rows(world.log())) == wanted, steps
        world.close()


def test_a_topic_deleted_at_any_step_leaves_nothing_and_its_successor_is_its_own() -> None:
    for steps in range(steps_of(made) + 1):
        world = made()
        cleaner = cleaner_of(world)
        begun(world, cleaner, steps)
        world.directory.delete_log(PLACE)
        again = world.directory.create_log(PLACE, TOPIC_ID, LogConfig())
        put(again, (b"new", b"log"))
        world.settle()
        world.flush(again)
        compact_now(world, cleaner)
        assert rows(again) == [(0, b"new", b"log")]
        assert len(again.segments) == 1
        names = world.disk.list(again.directory)
        assert not [name for name in names if name.count(".") > 1], steps
        world.clock.advance(2)
        world.settle()
        assert not [name for name in world.disk.list("/data") if name.endswith("-delete")]
        world.close()


def test_a_reader_in_the_middle_of_an_old_segment_reads_on_to_its_end() -> None:
    world = made()
    log = world.log()
    middle = log.segments[4]
    offset = Offset(middle.base_offset)
    before = {row for row in rows(log) if row[0] >= offset}
    first = log.read(offset, 100, below=log.end_offset)
    assert isinstance(first, ReadResult)
    old = log.segments[4].file.read(0, middle.size)
    compact_now(world, cleaner_of(world))
    assert log.segments[0].base_offset == 0
    assert middle not in log.segments
    found = {
        (one.offset, one.key, one.value)
        for _, data in batches_of(log, first.next_offset)
        for one in wire.records(data)
    }
    assert found <= before
    assert newest(sorted(found)) == newest(sorted(before))
    assert wire.parse_header(old).base_offset == offset


def test_an_old_segment_that_a_thread_still_holds_finds_its_own_index() -> None:
    world = World(config=replace(SMALL, file_delete_delay_ms=60_000))
    log = filled(world)
    world.restart(clean=True)
    log = world.log()
    log.high_watermark = log.flushed_offset
    old = log.segments[:-1]
    wanted = {one.base_offset: one.file.read(0, one.size) for one in old}
    compact_now(world, cleaner_of(world))
    assert log.segments[0] is not old[0]
    for segment in old:
        found = segment.find(Offset(segment.base_offset + 2), segment.file.read)
        assert found is not None
        assert segment.file.read(0, segment.size) == wanted[segment.base_offset]
        segment.index.loaded = segment.time_index.loaded = False
        segment.load_indexes()
        assert segment.index.path.endswith(".deleted")


def test_a_worker_that_fails_is_tried_again() -> None:
    world = made()
    wanted = newest(rows(world.log()))
    cleaner = cleaner_of(world)
    world.directory.checkpoint()
    world.settle()
    world.disk.fail_writes(0, sticky=False)
    world.clock.advance(1.0)
    world.settle()
    assert (cleaner.compactions, world.directory.fenced) == (0, False)
    assert not [one for one in world.disk.list("/data/t-0") if one.endswith(".cleaned")]
    compact_now(world, cleaner)
    assert cleaner.compactions == 1
    assert newest(rows(world.log())) == wanted


def test_a_compaction_waits_until_the_recovery_point_is_written() -> None:
    world = made()
    log = world.log()
    cleaner = cleaner_of(world)
    begun(world, cleaner, 0)
    assert b"t 0 120" not in recovery_points(world)
    world.settle()
    assert cleaner.compactions == 1
    assert b"t 0 120" in recovery_points(world)
    assert log.flushed_offset == 120


def recovery_points(world: World) -> bytes:
    path = "/data/recovery-point-offset-checkpoint"
    if not world.disk.exists(path):
        return b""
    file = world.disk.open(path)
    return file.read(0, file.size())


def test_an_empty_segment_that_compaction_left_expires_like_any_other() -> None:
    config = replace(SMALL, retention_ms=1000)
    world = World(config=config)
    log = world.log()
    for at in range(20):
        put(log, (b"same", b"%d" % at * 40))
    world.flush(log)
    log.config = replace(config, retention_ms=-1)
    compact_now(world, cleaner_of(world))
    assert log.segments[0].size < 200
    log.config = config
    assert apply_retention(log, NOW_MS + 10_000_000) > 0
    assert log.start_offset == log.end_offset
