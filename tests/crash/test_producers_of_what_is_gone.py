"""Producers whose batches retention took: the snapshot is all that knows of them."""

from dataclasses import replace

import pytest

from headrace.config.topic import LogConfig
from headrace.log.producers import Duplicate
from headrace.testing.disk_crash import crash_states
from headrace.wire.kafka import batch as wire
from tests.support.log import NOW_MS, World, append, batch_of

CONFIG = LogConfig(segment_bytes=700, retention_ms=-1, file_delete_delay_ms=100)
PRODUCER = (7, 0, 0)


@pytest.mark.parametrize("rolled", [False, True], ids=["the active one too", "rolled before"])
def test_they_are_known_after_a_power_cut(rolled: bool) -> None:
    world = World(config=CONFIG)
    log = world.log()
    append(log, b"x", producer=PRODUCER)
    if rolled:
        log.roll()
        log.high_watermark = log.end_offset
    else:
        world.flush(log)
    log.config = replace(CONFIG, retention_bytes=0)
    assert log.apply_retention(NOW_MS) == 1
    world.settle()
    world.clock.advance(0.2)
    world.settle()
    again = wire.parse_header(batch_of(b"x", producer=PRODUCER))
    for left in crash_states(world.disk, len(world.disk.ops), seed=1, samples=8):
        after = world.after_power_cut(left)
        assert isinstance(after.log().producers.check(again, NOW_MS), Duplicate)
        after.close()
    world.close()
