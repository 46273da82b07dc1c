"""Salvage segments with corrupt batches: keep the valid ones, or cut the log before the first."""

from collections.abc import Iterator
from contextlib import closing

from headrace.log import file_names
from headrace.log.segment.scan import BadBatch, batches
from headrace.logtools.repair.plan import Mending
from headrace.logtools.verify import PartitionFacts
from headrace.logtools.verify.segment import SegmentFacts, check_records
from headrace.ports.disk import DiskFile
from headrace.record.batch import parse_header
from headrace.record.batch_layout import CRC_FROM, HEADER_BYTES, LENGTH_MIN, MAGIC, OVERHEAD_BYTES
from headrace.record.crc32c import crc32c

_MAGIC_AT = 16
_WINDOW_BYTES = 4 << 20
_BATCH_BYTES_MAX = 1 << 30
Stretch = tuple[int, int, int, int]
"""A run of valid batches: position, size, first offset, offset after the last."""


def sound_stretches(file: DiskFile, size: int, first: int, limit: int) -> Iterator[Stretch]:
    """Yield the runs of valid batches in a file, with increasing offsets, skipping corrupt
    bytes."""
    position, expected = 0, first
    while position < size:
        begin, begin_offset = position, None
        end_offset = expected
        try:
            for batch in batches(file.read, position, size, file.path, expected):
                header = batch.header
                after = header.base_offset + header.last_offset_delta + 1
                check_records(batch, file.path)
                if after > limit:
                    break
                if begin_offset is None:
                    begin_offset = header.base_offset
                position, end_offset = batch.position + len(batch.view), after
        except BadBatch:
            pass
        if begin_offset is not None:
            yield begin, position - begin, begin_offset, end_offset
            expected = end_offset
        if position >= size:
            return
        found = _next_batch(file, position + 1, size, expected, limit)
        if found is None:
            return
        position = found


def _next_batch(file: DiskFile, start: int, size: int, expected: int, limit: int) -> int | None:
    """Return the position of the next valid batch, searched byte by byte; None if there are no
    more."""
    while start + HEADER_BYTES <= size:
        window = file.read(start, min(_WINDOW_BYTES, size - start))
        at = window.find(bytes((MAGIC,)), _MAGIC_AT)
        while at >= 0 and at - _MAGIC_AT + HEADER_BYTES <= len(window):
            header = parse_header(window, at - _MAGIC_AT)
            position = start + at - _MAGIC_AT
            length = header.batch_length + OVERHEAD_BYTES
            if (
                LENGTH_MIN <= header.batch_length <= _BATCH_BYTES_MAX
                and position + length <= size
                and expected <= header.base_offset
                and header.last_offset_delta >= 0
                and header.base_offset + header.last_offset_delta < limit
                and crc32c(file.read(position + CRC_FROM, length - CRC_FROM)) == header.crc
            ):
                return position
            at = window.find(bytes((MAGIC,)), at + 1)
        start += max(len(window) - HEADER_BYTES, 1)
    return None


def salvage(mending: Mending, facts: PartitionFacts, damaged: set[str]) -> bool:
    """Repair a partition's damaged segments; return whether any file was changed."""
    changed = False
    for at, segment in enumerate(facts.segments):
        if segment.path not in damaged:
            continue
        if mending.truncate:
            return _cut(mending, facts.segments[at:])
        limit = facts.segments[at + 1].base if at + 1 < len(facts.segments) else 1 << 62
        changed |= _rewrite(mending, segment, limit)
    return changed


def _rewrite(mending: Mending, segment: SegmentFacts, limit: int) -> bool:
    path = segment.path
    with closing(mending.disk.open(path, writable=False)) as file:
        stretches = list(sound_stretches(file, file.size(), segment.base, limit))
        kept = sum(size for _, size, _, _ in stretches)
        text = (
            f"moved aside, {kept} of {file.size()} bytes rewritten; "
            f"lost are {_holes(stretches, segment.base, limit, file.size())}"
        )
        if not mending.step(path, text):
            return False
        temporary = f"{path}.tmp"
        with closing(mending.disk.open(temporary, create=True)) as target:
            target.truncate(0)
            at = 0
            for position, size, _, _ in stretches:
                at = _copy(file, position, size, target, at)
            target.sync()
    mending.move_aside(path)
    mending.disk.rename(temporary, path)
    mending.disk.sync_directory(path.rpartition("/")[0])
    return True


def _copy(source: DiskFile, position: int, size: int, target: DiskFile, at: int) -> int:
    end = position + size
    while position < end:
        chunk = source.read(position, min(_WINDOW_BYTES, end - position))
        target.write_at(at, (chunk,))
        at += len(chunk)
        position += len(chunk)
    return at


def _holes(stretches: list[Stretch], first: int, limit: int, size: int) -> str:
    """Return the offsets between the valid runs, as text."""
    holes, expected = [], first
    for _, _, begin, end in stretches:
        if begin > expected:
            holes.append(f"{expected} to {begin - 1}")
        expected = end
    if limit < 1 << 62:
        if expected < limit:
            holes.append(f"{expected} to {limit - 1}")
    elif not stretches or sum(stretches[-1][:2]) < size:
        # The number of records in the bytes after the last valid batch is unknown.
        holes.append(f"all from {expected} on (new records will be given these offsets again)")
    return "offsets " + ", ".join(holes) if holes else "no offsets"


def _cut(mending: Mending, segments: list[SegmentFacts]) -> bool:
    """Cut the log before the first corrupt batch of `segments[0]`."""
    first, gone = segments[0], segments[1:]
    bytes_gone = first.size - first.sound_bytes + sum(segment.size for segment in gone)
    last = max(segment.end for segment in segments)
    text = (
        f"cut at byte {first.sound_bytes}: {bytes_gone} bytes go, {len(gone)} later segments with "
        f"them, the log ends at offset {first.end} instead of {max(last, first.end)}: up to "
        f"{max(last - first.end, 0)} sound records behind the bad batch are lost"
    )
    if not mending.step(first.path, text):
        return False
    disk = mending.disk
    directory = first.path.rpartition("/")[0]
    for segment in reversed(gone):
        for suffix in (*file_names.SEGMENT_SUFFIXES, file_names.SNAPSHOT):
            path = f"{directory}/{file_names.segment_file(segment.base, suffix)}"
            if disk.exists(path):
                disk.remove(path)
    with closing(disk.open(first.path)) as file:
        file.truncate(first.sound_bytes)
        file.sync()
    disk.sync_directory(directory)
    return True
