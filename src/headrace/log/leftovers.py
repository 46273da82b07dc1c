"""What an interrupted deletion, compaction or checkpoint left in a partition's directory.

`.deleted` and `.tmp` go; of a compaction `compact.swap` says what was complete.
"""

from headrace.log import names
from headrace.log.compact import swap
from headrace.log.segment import Segment
from headrace.world.disk import Disk


def settle(disk: Disk, directory: str) -> list[str]:
    """Finish or undo what was under way; returns the names then in `directory`."""
    present = disk.list(directory)
    dead = [
        name
        for name in present
        if name.endswith(".tmp")
        or (name.endswith(names.DELETED) and names.parse_segment_file(name) is not None)
    ]
    for name in dead:
        disk.remove(f"{directory}/{name}")
    swapped = swap.settle(disk, directory, present)
    if not dead and not swapped:
        return present
    disk.sync_directory(directory)
    return disk.list(directory)


def remove_segment(disk: Disk, segment: Segment) -> None:
    """Remove a segment's files at once."""
    segment.close()
    for suffix in names.SEGMENT_SUFFIXES:
        if disk.exists(segment.path(suffix)):
            disk.remove(segment.path(suffix))
