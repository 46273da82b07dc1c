"""Offsets derived from a log's state stay within the log when its start moves."""

from collections.abc import Callable

import pytest

from headrace.config.log_config import LogConfig
from headrace.log.directory.state_files.durable_read_bounds import read_bound
from headrace.log.retention import apply_retention
from headrace.model.nouns import Offset
from tests.support.log.log import NOW_MS, PLACE, TOPIC_ID, World, append, append_marker

Move = Callable[[World], None]
DAY_MS = 86_400_000
OPEN = 9
"""The producer whose transaction is open."""


def with_open_transaction() -> World:
    """Offsets 0 to 2 of an open transaction in a segment of their own, then 3, not of it."""
    world = World(config=LogConfig(retention_ms=DAY_MS))
    log = world.log()
    for number in range(3):
        old = NOW_MS - 2 * DAY_MS
        append(log, b"t", producer=(OPEN, 0, number), transactional=True, timestamp=old)
    log.roll()
    append(log, b"plain")
    world.flush(log)
    assert log.last_stable_offset(log.high_watermark) == 0
    return world


def by_delete_records(world: World) -> None:
    world.log().delete_records(Offset(3))
    world.settle()


def by_retention(world: World) -> None:
    assert apply_retention(world.log(), NOW_MS) == 1
    world.settle()


@pytest.mark.parametrize("move", [by_delete_records, by_retention])
def test_last_stable_offset_is_not_below_the_log_start(move: Move) -> None:
    world = with_open_transaction()
    log = world.log()
    move(world)
    assert (log.start_offset, log.last_stable_offset(log.high_watermark)) == (3, 3)
    assert log.first_unstable_offset() == 0, "it is still undecided"
    append_marker(log, OPEN, commit=True)
    assert log.last_stable_offset(log.high_watermark) == 3, "its marker is not committed yet"
    world.flush(log)
    assert log.last_stable_offset(log.high_watermark) == log.high_watermark == 5
    world.close()


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("move", [by_delete_records, by_retention])
def test_a_restart_keeps_the_last_stable_offset_at_the_log_start(move: Move, clean: bool) -> None:
    world = with_open_transaction()
    move(world)
    world.restart(clean=clean)
    log = world.log()
    assert log.start_offset <= log.high_watermark
    assert log.last_stable_offset(log.high_watermark) == log.start_offset == 3
    world.close()


def test_a_younger_open_transaction_still_bounds_committed_data() -> None:
    world = with_open_transaction()
    log = world.log()
    append(log, b"t", producer=(8, 0, 0), transactional=True)
    append(log, b"plain")
    world.flush(log)
    log.delete_records(Offset(3))
    assert log.last_stable_offset(log.high_watermark) == 3
    append_marker(log, OPEN, commit=False)
    world.flush(log)
    assert log.last_stable_offset(log.high_watermark) == 4
    world.close()


def test_published_bounds_of_committed_data_begin_at_the_log_start() -> None:
    world = with_open_transaction()
    by_delete_records(world)
    world.flush(world.log())
    assert read_bound(world.disk, "/data", PLACE, TOPIC_ID) == (3, 4, 3)
    world.close()
