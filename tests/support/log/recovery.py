"""Logs to be recovered, and how they came to be so."""

from headrace.config.log_config import LogConfig
from tests.support.log.log import World, append

CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=200, segment_index_bytes=1024)
FIRST = "/data/t-0/00000000000000000000.log"


def written(count: int = 6, *, checkpoint_at: int = 0) -> tuple[World, list[int]]:
    """A world whose log holds `count` batches in one segment, and where they begin and end.

    The recovery point is at `checkpoint_at`.
    """
    world = World(config=LogConfig(index_interval_bytes=200, segment_index_bytes=1024))
    log = world.log()
    at = [0]
    for number in range(count):
        append(log, b"%02d" % number * 30)
        at.append(log.segments[0].size)
        if number + 1 == checkpoint_at:
            world.flush(log)
            world.directory.checkpoint()
            world.settle()
    return world, at


def reboot(world: World) -> None:
    """The machine goes down and comes back with all that was written."""
    world.disk.boot = "the next boot"
    world.restart(clean=False)
