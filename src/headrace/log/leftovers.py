"""What an interrupted deletion, compaction or split left in a partition's directory.

Kafka's four passes (LogLoader): `.deleted` and `.cleaned` go; a `.swap` beside an equal or earlier
`.cleaned` was not complete and goes too; segments that a complete `.swap` replaces go; the `.swap`
takes their place.
"""

from headrace.log import names
from headrace.log.scan import headers
from headrace.log.segment import Segment
from headrace.world.disk import Disk


def settle(disk: Disk, directory: str) -> list[str]:
    """Finish or undo what was under way; returns the names then in `directory`."""
    present = disk.list(directory)
    parsed = {name: found for name in present if (found := names.parse_segment_file(name))}
    doubtful = [name for name, (_, suffix) in parsed.items() if suffix.count(".") > 1]
    temporary = [name for name in present if name.endswith(".tmp")]
    if not doubtful and not temporary:
        return present
    for name in temporary:
        disk.remove(f"{directory}/{name}")
    swaps = _drop_incomplete(disk, directory, {name: parsed[name] for name in doubtful})
    if swaps:
        _drop_replaced(disk, directory, swaps, parsed)
        for name in swaps:
            disk.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(names.SWAP)}")
    disk.sync_directory(directory)
    return disk.list(directory)


def _drop_incomplete(
    disk: Disk, directory: str, doubtful: dict[str, tuple[int, str]]
) -> dict[str, tuple[int, str]]:
    cleaned = [base for base, suffix in doubtful.values() if suffix.endswith(names.CLEANED)]
    first_cleaned = min(cleaned, default=None)
    swaps = {}
    for name, (base, suffix) in doubtful.items():
        complete = suffix.endswith(names.SWAP) and (first_cleaned is None or base < first_cleaned)
        if complete:
            swaps[name] = (base, suffix)
        elif suffix.endswith((names.SWAP, names.CLEANED, names.DELETED)):
            disk.remove(f"{directory}/{name}")
    return swaps


def _drop_replaced(
    disk: Disk,
    directory: str,
    swaps: dict[str, tuple[int, str]],
    parsed: dict[str, tuple[int, str]],
) -> None:
    logs = [(name, base) for name, (base, suffix) in swaps.items() if suffix == ".log.swap"]
    if not logs:
        return
    first = min(base for _, base in logs)
    end = max(_next_offset(disk, f"{directory}/{name}", base) for name, base in logs)
    for name, (base, suffix) in parsed.items():
        if suffix in names.SEGMENT_SUFFIXES and first <= base < end:
            disk.remove(f"{directory}/{name}")


def _next_offset(disk: Disk, path: str, base: int) -> int:
    file = disk.open(path, writable=False)
    try:
        end = base
        for _, header in headers(file.read, 0, file.size(), path):
            end = header.base_offset + header.last_offset_delta + 1
        return end
    finally:
        file.close()


def remove_segment(disk: Disk, segment: Segment) -> None:
    """Remove a segment's files at once."""
    segment.close()
    for suffix in names.SEGMENT_SUFFIXES:
        if disk.exists(segment.path(suffix)):
            disk.remove(segment.path(suffix))
