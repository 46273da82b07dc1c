"""Producers whose batches retention took: the snapshot is all that knows of them."""

from dataclasses import replace

import pytest

from headrace.config.log_config import LogConfig
from headrace.log.producers.producer_states import Duplicate
from headrace.log.retention import apply_retention
from headrace.model.nouns import Offset
from headrace.record import batch as wire
from headrace.testing.disk_crash import crash_states
from tests.support.log.log import NOW_MS, World, append, batch_of, truncate_to

CONFIG = LogConfig(segment_bytes=700, retention_ms=-1, file_delete_delay_ms=100)
PRODUCER = (7, 0, 0)
AGAIN = wire.parse_header(batch_of(b"x", producer=PRODUCER))


def flushed_and_rolled() -> World:
    """The producer's batch is on the platter; the snapshot behind it is not."""
    world = World(config=CONFIG)
    log = world.log()
    append(log, b"x", producer=PRODUCER)
    world.flush(log)
    log.roll()
    return world


def retain_nothing(world: World) -> None:
    log = world.log()
    log.config = replace(CONFIG, retention_bytes=0)
    log.high_watermark = log.end_offset
    assert apply_retention(log, NOW_MS) >= 1
    assert log.start_offset == 1
    world.settle()
    world.clock.advance(0.2)
    world.settle()


def forgets(world: World) -> bool:
    return not isinstance(world.log().producers.check(AGAIN, NOW_MS), Duplicate)


def forgotten_by_some_power_cut(world: World) -> list[bool]:
    found = []
    for left in crash_states(world.disk, len(world.disk.ops), seed=1, samples=8):
        after = world.after_power_cut(left)
        found.append(forgets(after))
        after.close()
    return found


@pytest.mark.parametrize("rolled", [False, True], ids=["the active one too", "rolled before"])
def test_they_are_known_after_a_power_cut(rolled: bool) -> None:
    world = World(config=CONFIG)
    log = world.log()
    append(log, b"x", producer=PRODUCER)
    if rolled:
        log.roll()
    else:
        world.flush(log)
    retain_nothing(world)
    assert not any(forgotten_by_some_power_cut(world))
    world.close()


def test_a_snapshot_that_a_power_cut_took_is_written_again_before_the_batches_go() -> None:
    world = flushed_and_rolled()
    log = world.log()
    append(log, b"y", b"z")
    truncate_to(log, Offset(2))  # makes durable that there is a segment at 1
    world.directory.checkpoint()
    world.settle()
    world = world.after_power_cut(next(crash_states(world.disk, len(world.disk.ops), seed=0)))
    retain_nothing(world)
    assert not any(forgotten_by_some_power_cut(world))
    world.restart(clean=False)
    assert not forgets(world)
    world.close()


def test_a_snapshot_that_only_a_kill_was_survived_by_outlives_a_power_cut_too() -> None:
    world = flushed_and_rolled()
    world.directory.checkpoint()
    world.settle()
    world.restart(clean=False)
    retain_nothing(world)
    assert not any(forgotten_by_some_power_cut(world))
    world.close()


def test_a_truncation_to_where_the_log_begins_leaves_them_known_after_a_kill() -> None:
    world = World(config=CONFIG)
    log = world.log()
    append(log, b"x", producer=PRODUCER)
    log.roll()
    append(log, b"y")
    log.roll()
    world.restart(clean=False)
    log = world.log()
    log.config = replace(CONFIG, retention_bytes=1)
    log.high_watermark = log.end_offset
    assert apply_retention(log, NOW_MS) == 1
    truncate_to(log, Offset(1))
    assert not forgets(world)
    world.close()
