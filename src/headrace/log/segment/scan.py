"""Iterate over the batches in a segment's file.

`headers` reads headers only and checks length, magic and the order of offsets; `batches` reads all
bytes and checks every CRC. An invalid batch raises BadBatch with file and position: a read reports
it to the client, recovery decides whether it is a torn tail.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from headrace.model.errors import CorruptLogError
from headrace.ports.disk import Buffer
from headrace.record.batch import BatchHeader, parse_header
from headrace.record.batch_layout import (
    BATCH_LENGTH,
    CRC_FROM,
    HEADER_BYTES,
    LENGTH_MIN,
    MAGIC,
    OVERHEAD_BYTES,
)
from headrace.record.crc32c import crc32c

Fetch = Callable[[int, int], Buffer | None]
"""A function from (position, size) to bytes, fewer at the file's end; None if not cached."""

NO_LIMIT = 1 << 63
_WINDOW_BYTES = 8192
_CHUNK_BYTES = 1 << 20


class NotCached(Exception):
    """Raised when bytes are not in the page cache: repeat the read where blocking is allowed."""


class BadBatch(CorruptLogError):
    """An incomplete or invalid batch in a file."""

    def __init__(self, path: str, position: int, reason: str, *, cut_off: bool = False) -> None:
        super().__init__(f"{path} at byte {position}: {reason}")
        self.path = path
        self.position = position
        self.reason = reason
        self.cut_off = cut_off
        """Whether the file ends before the batch does, as after an interrupted write.

        A damaged length field looks the same.
        """


class Batch(NamedTuple):
    """A batch read from a file: position, parsed header and bytes."""

    position: int
    header: BatchHeader
    view: memoryview
    """The whole batch; valid until the iterator's next step."""


def check_frame(header: BatchHeader, expected: int, path: str, position: int) -> None:
    """Raise BadBatch for an invalid header: wrong magic, length or descending offsets."""
    if header.magic != MAGIC:
        raise BadBatch(path, position, f"magic {header.magic}, not {MAGIC}")
    if header.batch_length < LENGTH_MIN:
        raise BadBatch(path, position, f"batch length {header.batch_length} is too small")
    if header.last_offset_delta < 0 or header.base_offset < expected:
        raise BadBatch(
            path,
            position,
            f"offset {header.base_offset} (+{header.last_offset_delta}), expected {expected} "
            "or more",
        )


def headers(
    fetch: Fetch, start: int, end: int, path: str, expected: int = 0, limit: int = NO_LIMIT
) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of the batches in the byte range [start, end) of a segment.

    `expected`: the least base offset allowed, 0 if unknown; `limit`: all offsets must be below.
    BadBatch for an invalid or torn batch, and for an offset gap that the next batch contradicts.
    Raises NotCached.
    """
    position = start
    window: Buffer = b""
    window_at = start
    while position < end:
        at = position - window_at
        if not 0 <= at <= len(window) - HEADER_BYTES:
            window_at = position
            window = _fetched(fetch, position, min(_WINDOW_BYTES, end - position))
            at = 0
            if len(window) < HEADER_BYTES:
                raise BadBatch(path, position, f"{end - position} bytes, less than a batch header")
        header = parse_header(window, at)
        check_frame(header, expected, path, position)
        following = position + header[BATCH_LENGTH] + OVERHEAD_BYTES
        if following > end:
            raise BadBatch(path, position, f"runs {following - end} bytes past the end")
        last = header.base_offset + header.last_offset_delta
        if last >= limit:
            raise BadBatch(path, position, f"offset {last}, but the segment ends at {limit}")
        if 0 < expected < header.base_offset and contradicted(last, fetch, following, end):
            reason = (
                f"offset {header.base_offset} after {expected - 1}, the next batch begins before it"
            )
            raise BadBatch(path, position, reason)
        yield position, header
        expected = last + 1
        position = following


def contradicted(last: int, fetch: Fetch, behind: int, end: int) -> bool:
    """Return whether the batch at byte `behind` begins at or before offset `last`.

    Raises NotCached. `last` is the last offset of the batch before. The CRC does not cover base
    offsets: an offset gap (as compaction leaves) is accepted only if the next batch agrees.
    """
    if behind + HEADER_BYTES > end:
        return False
    header = parse_header(_fetched(fetch, behind, HEADER_BYTES))
    return header.magic == MAGIC and header.base_offset <= last


def batches(fetch: Fetch, start: int, end: int, path: str, expected: int = 0) -> Iterator[Batch]:
    """Yield the batches in the byte range [start, end), each checked by CRC. Raises BadBatch."""
    position = start
    chunk = memoryview(b"")
    chunk_at = start
    while position < end:
        at = position - chunk_at
        if len(chunk) - at < HEADER_BYTES:
            chunk_at, at = position, 0
            chunk = memoryview(_fetched(fetch, position, min(_CHUNK_BYTES, end - position)))
            if len(chunk) < HEADER_BYTES:
                raise BadBatch(path, position, f"{end - position} bytes, less than a batch header")
        header = parse_header(chunk, at)
        check_frame(header, expected, path, position)
        size = header[BATCH_LENGTH] + OVERHEAD_BYTES
        if position + size > end:
            raise BadBatch(path, position, f"runs {position + size - end} bytes past the end")
        if at + size > len(chunk):
            wanted = min(max(size, _CHUNK_BYTES), end - position)
            chunk_at, at = position, 0
            chunk = memoryview(_fetched(fetch, position, wanted))
            if len(chunk) < size:
                raise BadBatch(path, position, "the file ends inside the batch")
        view = chunk[at : at + size]
        if crc32c(view[CRC_FROM:]) != header.crc:
            raise BadBatch(path, position, "the checksum does not match")
        yield Batch(position, header, view)
        expected = header.base_offset + header.last_offset_delta + 1
        position += size


def _fetched(fetch: Fetch, position: int, size: int) -> Buffer:
    data = fetch(position, size)
    if data is None:
        raise NotCached
    return data
