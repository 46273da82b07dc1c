"""Replace segments of a log by the cleaned segment made from them, also after a crash in between.

The files of a cleaned segment are complete and flushed. Then (Kafka's LocalLog.replaceSegments):

    step                               a start that finds this state (`settle`, Kafka's LogLoader)
    0  x.log.cleaned                   removes `.cleaned` and any `.swap`: the old segments count
    1  .cleaned -> .swap, .log first   as in 0 while a `.cleaned` exists, else as in 2
    2  old segments -> .deleted        removes the old segments, then does step 3
    3  .swap -> final, .log first      renames the rest
"""

from headrace.log import file_names
from headrace.log.compaction.job import Cleaned
from headrace.log.log import Log
from headrace.log.segment.scan import headers
from headrace.log.segment.segment import Segment
from headrace.model.nouns import Offset
from headrace.ports.disk import Disk

_Parsed = dict[str, tuple[int, str]]


def place_of(log: Log, cleaned: Cleaned) -> int | None:
    """Return the index in the log of the segments that `cleaned` was made from.

    None if one is missing, active or changed since.
    """
    bases = [base for base, _ in cleaned.sources]
    for at, segment in enumerate(log.segments[:-1]):
        if segment.base_offset == bases[0]:
            found = log.segments[at : min(at + len(bases), len(log.segments) - 1)]
            same = [(segment.base_offset, segment.size) for segment in found] == list(
                cleaned.sources
            )
            return at if same else None
    return None


def swap_in(log: Log, cleaned: Cleaned, at: int) -> list[Segment]:
    """Replace the segments at index `at` by `cleaned`; return the replaced segments.

    Renames only, no blocking flush. Readers of the old segments continue in them. Durable after the
    directory's next fsync. Raises StorageError.
    """
    disk = log.context.disk
    old = log.segments[at : at + len(cleaned.sources)]
    base = f"{log.directory}/{file_names.segment_file(cleaned.base_offset, '')}"
    try:
        for segment in old:
            _ = segment.file  # open it while the name is still its own
        for suffix in cleaned.files:
            disk.rename(f"{base}{suffix}{file_names.CLEANED}", f"{base}{suffix}{file_names.SWAP}")
        for segment in old:
            segment.rename_away(file_names.DELETED)
        for suffix in cleaned.files:
            disk.rename(f"{base}{suffix}{file_names.SWAP}", f"{base}{suffix}")
    except OSError as error:
        raise log.context.fail(error, log.directory) from error
    new = log.segments.make(Offset(cleaned.base_offset), log.config)
    new.size = cleaned.size
    log.unflushed.forget(old)
    log.segments.replace([*log.segments[:at], new, *log.segments[at + len(old) :]])
    return old


def settle(disk: Disk, directory: str, present: list[str]) -> bool:
    """Finish or undo interrupted swaps among the names `present`; return whether any was found.

    Blocking. CorruptLogError: a complete `.swap` file is not a valid log.
    """
    parsed = {name: found for name in present if (found := file_names.parse_segment_file(name))}
    cleaned = {name: at for name, at in parsed.items() if at[1].endswith(file_names.CLEANED)}
    swaps = {name: at for name, at in parsed.items() if at[1].endswith(file_names.SWAP)}
    if not cleaned and not swaps:
        return False
    first_cleaned = min((base for base, _ in cleaned.values()), default=None)
    # Incomplete swaps are removed before the `.cleaned` files that mark them: after a crash in
    # between, the next start still finds the mark.
    for name, (base, _) in list(swaps.items()):
        if first_cleaned is not None and base >= first_cleaned:
            disk.remove(f"{directory}/{name}")
            del swaps[name]
    for name in cleaned:
        disk.remove(f"{directory}/{name}")
    _drop_replaced(disk, directory, swaps, parsed)
    # The `.log` first: after a crash the next start finds no replaced segment to remove.
    for name in sorted(swaps, key=lambda path: not path.endswith(file_names.LOG + file_names.SWAP)):
        disk.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(file_names.SWAP)}")
    return True


def _drop_replaced(disk: Disk, directory: str, swaps: _Parsed, parsed: _Parsed) -> None:
    logs = [
        (name, at[0]) for name, at in swaps.items() if at[1] == file_names.LOG + file_names.SWAP
    ]
    if not logs:
        return
    first = min(base for _, base in logs)
    end = max(_next_offset(disk, f"{directory}/{name}", base) for name, base in logs)
    for name, (base, suffix) in parsed.items():
        if suffix in file_names.SEGMENT_SUFFIXES and first <= base < end:
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
