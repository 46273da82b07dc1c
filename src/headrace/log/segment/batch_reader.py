"""Reading whole batches from a segment, none of them believed unseen.

Every batch that goes out has had its frame and its checksum looked at: CRC32C runs at tens of GB/s,
a copy to a socket at one or two.
"""

from typing import NamedTuple

from headrace.log import file_names
from headrace.log.segment.scan import (
    BadBatch,
    Fetch,
    NotCached,
    check_frame,
    contradicted,
)
from headrace.log.segment.segment import Segment
from headrace.model.nouns import Offset
from headrace.ports.disk import Buffer
from headrace.record.batch import parse_header
from headrace.record.batch_layout import (
    CRC_FROM,
    FRAME,
    HEADER_BYTES,
    LENGTH_MIN,
    MAGIC,
    OVERHEAD_BYTES,
)
from headrace.record.crc32c import crc32c


class ReadResult(NamedTuple):
    """Whole batches, the first of which holds the offset asked for."""

    data: Buffer
    next_offset: Offset
    """Where to read on: the offset after the last batch of `data`."""


class NeedsDisk(NamedTuple):
    """Not in the page cache: call `read_from_disk` with the same arguments off the thread."""

    offset: Offset


def read_batches(
    segment: Segment,
    position: int,
    offset: Offset,
    max_bytes: int,
    below: Offset,
    limit: Offset,
    at_least_one: bool,
    fetch: Fetch,
) -> tuple[Buffer, Offset]:
    """Return whole batches from `position` on, as many as `max_bytes` and `below` allow.

    Returns them and the offset after the last one; empty where the first is not allowed. The first
    comes whatever its size if `at_least_one`. `limit`: where the segment's offsets end: the base
    offset is not under the checksum, so it is held against that. BadBatch, NotCached.
    """
    left = segment.size - position
    size = min(max(max_bytes, HEADER_BYTES), left)
    data = fetch(position, size)
    if data is None:
        raise NotCached
    cut, following = whole_batches(data, offset, below, limit, segment, position, fetch)
    if cut == 0:
        wanted = _first_size(data, below, segment, position)
        if wanted == 0 or (wanted > max_bytes and not at_least_one):
            return b"", offset
        if wanted > left:
            raise BadBatch(segment.path(file_names.LOG), position, "runs past the end")
        data = fetch(position, wanted)
        if data is None:
            raise NotCached
        cut, following = whole_batches(data, offset, below, limit, segment, position, fetch)
        if cut == 0 and len(data) < wanted:
            raise BadBatch(segment.path(file_names.LOG), position, "the file ends inside the batch")
    elif cut > max_bytes and not at_least_one:
        return b"", offset
    return (data if cut == len(data) else memoryview(data)[:cut]), following


def whole_batches(
    data: Buffer,
    offset: Offset,
    below: int,
    limit: int,
    segment: Segment,
    position: int,
    fetch: Fetch,
) -> tuple[int, Offset]:
    """Return the bytes of the whole, sound batches at the head of `data`, and the offset after.

    Base offsets are under no checksum. One that leaves a gap, as compaction does, is believed if
    the batch behind it begins behind it.
    """
    view = memoryview(data)
    unpack = FRAME.unpack_from
    at, end = 0, len(view)
    expected = segment.base_offset
    following = offset
    while end - at >= HEADER_BYTES:
        base, length, _, magic, crc, _, delta = unpack(view, at)
        after = at + OVERHEAD_BYTES + length
        last = base + delta
        if magic != MAGIC or length < LENGTH_MIN or delta < 0 or base < expected or last >= limit:
            if at:
                break  # what precedes it is sound; whoever reads on meets it
            _refuse(view, expected, limit, segment, position)
        if after > end or last >= below:
            break
        if crc32c(view[at + CRC_FROM : after]) != crc:
            if at:
                break
            raise BadBatch(segment.path(file_names.LOG), position, "the checksum does not match")
        if last < following or (
            base > following and contradicted(last, fetch, position + after, segment.size)
        ):
            if at:
                break
            reason = f"offset {base} (+{delta}) where {offset} was looked for"
            raise BadBatch(segment.path(file_names.LOG), position, reason)
        at = after
        expected = following = last + 1
    return at, following


def _first_size(data: Buffer, below: int, segment: Segment, position: int) -> int:
    if len(data) < HEADER_BYTES:
        raise BadBatch(
            segment.path(file_names.LOG), position, "the file is shorter than what was appended"
        )
    header = parse_header(data)
    if header.base_offset + header.last_offset_delta >= below:
        return 0
    return header.batch_length + OVERHEAD_BYTES


def _refuse(view: memoryview, expected: int, limit: int, segment: Segment, position: int) -> None:
    path = segment.path(file_names.LOG)
    header = parse_header(view)
    check_frame(header, expected, path, position)
    raise BadBatch(path, position, f"offset {header.base_offset} where all are below {limit}")
