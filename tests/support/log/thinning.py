"""Logs of which segments go from between others."""

from headrace.config.log_config import LogConfig
from headrace.model.nouns import Offset
from tests.support.log.log import PLACE, Held, World, append, bases

CONFIG = LogConfig(
    segment_bytes=500,
    index_interval_bytes=150,
    segment_index_bytes=1024,
    retention_ms=-1,
    file_delete_delay_ms=500,
)
BATCHES = 16
"""Two to a segment."""


def filled(world: World | None = None, *, first: int = 0, count: int = BATCHES) -> World:
    """A log of `count` batches of one record, all flushed."""
    world = world or World(config=CONFIG)
    for number in range(first, first + count):
        append(world.log(), b"%03d" % number * 50)
    world.flush(world.log())
    return world


def hold(world: World, *offsets: int) -> Held:
    """Have somebody want these offsets alone."""
    held = Held(*((offset, offset) for offset in offsets))
    world.directory.holds.add(PLACE, held)
    return held


def let_go(world: World, below: int | None = None) -> list[int]:
    """Have go what nobody wants; returns where the segments that are left begin."""
    log = world.log()
    log.context.events.let_go(log, Offset(log.end_offset if below is None else below))
    world.settle()
    return bases(world)


def thinned(world: World, *offsets: int) -> World:
    """The same log with the segments alone that hold one of these offsets, and the active one."""
    held = hold(world, *offsets)
    let_go(world)
    world.directory.holds.remove(PLACE, held)
    return world
