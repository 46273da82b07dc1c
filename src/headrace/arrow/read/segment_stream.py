"""Read one partition's segments to RecordBatches: large reads, one decoder, up to a bound."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from headrace.arrow.read.aborted_transactions import Aborted
from headrace.arrow.read.decode import VALUE_BYTES, PartitionDecoder
from headrace.arrow.read.partition_files import PartitionFiles, SegmentFile
from headrace.log.segment.scan import BadBatch
from headrace.log.segment.transaction_index import AbortedTransaction
from headrace.record.batch import parse_header, size_of
from headrace.record.batch_layout import HEADER_BYTES
from headrace.record.compression import CorruptBatch

CHUNK_BYTES = 256 * 1024
"""Bytes per read: small enough to stay in the processor's cache until decoded."""


VALUE_BYTES_PER_ROW, VALUE_BYTES_MIN = 256, 64 * 1024
"""Buffer bytes for values, close to need: RecordBatches that a caller keeps hold their buffers."""


class PartitionRead(NamedTuple):
    """The offsets to read of one partition."""

    files: PartitionFiles
    start: int
    end: int
    bound: int
    """The partition's readable end; `end` is at most this."""
    aborted: list[AbortedTransaction]


def read(task: PartitionRead, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the range in order. BadBatch, ApiError (topic deleted), OSError."""
    files = task.files
    decoder = PartitionDecoder(
        *files.place,
        offset_from=task.start,
        offset_until=task.end,
        columns=columns,
        topic_dictionary=True,
        rows_max=batch_rows,
        value_bytes=min(max(batch_rows * VALUE_BYTES_PER_ROW, VALUE_BYTES_MIN), VALUE_BYTES),
    )
    chunks = _Chunks()
    segment = files.segment_at(task.start)
    while segment is not None:
        try:
            decoder.limits = (segment.base_offset, files.limit_of(segment, task.bound))
            yield from _read_segment(segment, decoder, task.aborted, chunks)
            if decoder.done:
                break
            following = files.following(segment, decoder.position)
            if following is None:
                reason = f"ends before offset {task.bound}, and all below was flushed"
                raise BadBatch(segment.path, segment.file.size(), reason)
        finally:
            segment.close()
        segment = following
    yield from decoder.flush()


class _Chunks:
    """A read buffer that is reused, and grown for a batch that does not fit."""

    def __init__(self) -> None:
        self._buffer = memoryview(bytearray(CHUNK_BYTES))

    def read(self, segment: SegmentFile, position: int) -> memoryview:
        got = segment.file.read_into(self._buffer, position)
        return self._buffer[:got]

    def grow(self, size: int) -> bool:
        """Grow the buffer for a batch of `size` bytes; return False if it fits already."""
        if size <= len(self._buffer):
            return False
        self._buffer = memoryview(bytearray(size))
        return True


def _read_segment(
    segment: SegmentFile,
    decoder: PartitionDecoder,
    aborted: list[AbortedTransaction],
    chunks: _Chunks,
) -> Iterator[pa.RecordBatch]:
    """Feed the decoder the segment's batches from its position to the end of the range."""
    position = segment.position_of(decoder.position)
    while not decoder.done:
        chunk = chunks.read(segment, position)
        if not chunk:
            return
        out = _still_aborted(aborted, decoder.position)
        try:
            yield from decoder.feed(chunk, out)
        except CorruptBatch as error:
            at = position + decoder.consumed
            raise BadBatch(segment.path, at, error.message or "damaged") from error
        position += decoder.consumed
        if decoder.consumed == 0 and not decoder.done:
            _expect_more(segment, position, chunk, chunks)


def _still_aborted(aborted: list[AbortedTransaction], position: int) -> Aborted:
    return [
        (transaction.producer_id, transaction.first_offset)
        for transaction in aborted
        if transaction.last_offset >= position
    ]


def _expect_more(segment: SegmentFile, position: int, chunk: memoryview, chunks: _Chunks) -> None:
    """Grow the buffer, as it held no whole batch; BadBatch if the file ends within the batch."""
    size = segment.file.size()
    if len(chunk) >= HEADER_BYTES:
        needed = size_of(parse_header(chunk))
        if position + needed <= size and chunks.grow(needed):
            return
    raise BadBatch(segment.path, position, f"the file ends inside the batch, at {size} bytes")
