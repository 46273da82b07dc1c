"""Read whole batches from a segment; the frame and the CRC of each batch are checked.

Every batch served is verified: CRC32C runs at tens of GB/s, a copy to a socket at one or two.
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
    """Whole batches read from a log; the first one contains the requested offset."""

    data: Buffer
    next_offset: Offset
    """The offset after the last batch of `data`, at which the next read begins."""


class NeedsDisk(NamedTuple):
    """The result of a read whose bytes are not in the page cache.

    Call `read_from_disk` with the same arguments on another thread.
    """

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
    """Return the whole batches from byte `position` on, and the offset after the last of them.

    At most `max_bytes` and only batches below offset `below`; empty if the first is not allowed.
    If `at_least_one`, the first batch may be larger than `max_bytes`. `limit`: end offset of the
    segment; base offsets are checked against it, as the CRC does not cover them. Raises BadBatch
    and NotCached.
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
    """Return the byte size of the whole, valid batches at the head of `data`, and the next offset.

    The CRC does not cover base offsets. A gap before a batch (as compaction leaves) is accepted if
    the batch behind it begins after its last offset.
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
                break  # the batches before are valid; a read from here on reports the bad one
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
            reason = f"offset {base} (+{delta}), expected offset {offset}"
            raise BadBatch(segment.path(file_names.LOG), position, reason)
        at = after
        expected = following = last + 1
    return at, following


def _first_size(data: Buffer, below: int, segment: Segment, position: int) -> int:
    if len(data) < HEADER_BYTES:
        raise BadBatch(
            segment.path(file_names.LOG), position, "the file is shorter than its appended data"
        )
    header = parse_header(data)
    if header.base_offset + header.last_offset_delta >= below:
        return 0
    return header.batch_length + OVERHEAD_BYTES


def _refuse(view: memoryview, expected: int, limit: int, segment: Segment, position: int) -> None:
    path = segment.path(file_names.LOG)
    header = parse_header(view)
    check_frame(header, expected, path, position)
    raise BadBatch(path, position, f"offset {header.base_offset}, but the segment ends at {limit}")
