"""Finish or undo deletions, compactions and checkpoint writes that a crash interrupted.

`.deleted` and `.tmp` files are removed; `compaction.swap_segments` decides about `.swap` files.
"""

from headrace.log import file_names
from headrace.log.compaction import swap_segments
from headrace.log.segment.segment import Segment
from headrace.ports.disk import Disk


def settle(disk: Disk, directory: str) -> list[str]:
    """Finish or undo interrupted operations; return the file names then in `directory`."""
    present = disk.list(directory)
    dead = [
        name
        for name in present
        if name.endswith(".tmp")
        or (name.endswith(file_names.DELETED) and file_names.parse_segment_file(name) is not None)
    ]
    for name in dead:
        disk.remove(f"{directory}/{name}")
    swapped = swap_segments.settle(disk, directory, present)
    if not dead and not swapped:
        return present
    disk.sync_directory(directory)
    return disk.list(directory)


def remove_segment(disk: Disk, segment: Segment) -> None:
    """Remove the files of a segment now."""
    segment.close()
    for suffix in file_names.SEGMENT_SUFFIXES:
        if disk.exists(segment.path(suffix)):
            disk.remove(segment.path(suffix))
