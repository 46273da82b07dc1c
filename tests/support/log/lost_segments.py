"""Logs that lose a segment while their broker is stopped."""

from headrace.log import file_names
from headrace.testing.disk import SimDisk
from tests.support.log.log import World, append

HERE = "/data/t-0"


def filled(world: World, batches: int = 12) -> list[int]:
    """Two batches to a segment, all flushed and told; the base offsets of the segments."""
    log = world.log()
    for number in range(batches):
        append(log, b"%02d" % number * 200)
    world.flush(log)
    log.context.events.publish((log,))
    return [one.base_offset for one in log.segments]


def lose(disk: SimDisk, base: int, *, all_of_it: bool = True) -> None:
    """Remove a segment's `.log`, and what is beside it if `all_of_it`."""
    for suffix in (
        (*file_names.SEGMENT_SUFFIXES, file_names.SNAPSHOT) if all_of_it else (file_names.LOG,)
    ):
        path = f"{HERE}/{file_names.segment_file(base, suffix)}"
        if disk.exists(path):
            disk.remove(path)


def stop(world: World, how: str) -> None:
    """End the process so, the files being closed; `restarted` begins the next one."""
    if how == "powered off":
        world.disk.boot = "another boot"
    world.directory.close(clean=how == "stopped")


STOPS = ["stopped", "killed", "powered off"]
