"""Decode record batches of one partition, from Fetch responses or segments, to Arrow.

    decoder = PartitionDecoder("orders", 0, offset_from=120, offset_until=5_000)
    for data in fetches:
        yield from decoder.feed(data)
    yield from decoder.flush()

Skipped: control batches, aborted transactions (read_committed), and records outside of
`offset_from` to `offset_until`. Gaps, which compaction leaves, are allowed. Checked: length, magic,
CRC32C, codec limits, and every length inside of records.
"""

import struct
from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np
import pyarrow as pa

from headrace.arrow.read.aborted_transactions import NONE_ABORTED, Aborted, AbortedTransactions
from headrace.arrow.read.assemble import Assembler
from headrace.arrow.read.c_data import Array
from headrace.arrow.read.columns import COLUMNS, Buffers, Pool, decoded
from headrace.arrow.read.decompress import Bytes, Decompressor
from headrace.arrow.read.plain_batches import plain_batch_decoder
from headrace.kernels.choose import DecodeRecords, records_decoder
from headrace.kernels.layout import (
    BATCH_SLOTS,
    COMPLAINTS,
    INT64_MAX,
    INT64_MIN,
    ChunkOutcome,
    Outcome,
    Slot,
)
from headrace.record.batch import (
    CODEC_MASK,
    CONTROL,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    codec_of,
    iterate,
)
from headrace.record.batch_layout import CRC_FROM, HEADER_BYTES, OVERHEAD_BYTES
from headrace.record.compression import DECOMPRESSED_BYTES_MAX, Codec, CorruptBatch
from headrace.record.crc32c import crc32c

ROWS_MAX = 20_000
"""Rows per RecordBatch. Spark was measured no faster with more, and slower with half as many."""

VALUE_BYTES = 8 * 1024 * 1024
"""Buffer bytes for values per RecordBatch; a full buffer ends the RecordBatch early, and a larger
record gets a larger buffer."""
_KEYS_SHARE, _HEADERS_SHARE = 4, 8
"""Buffers for keys and headers are smaller than that for values by these factors."""

# Local names: looking a member up in an enumeration takes longer than most lines here.
_DONE, _FULL = Outcome.DONE, Outcome.FULL
_EXHAUSTED, _CHUNK_FULL = ChunkOutcome.EXHAUSTED, ChunkOutcome.FULL
_ROWS = int(Slot.ROWS)
_pack_batch = struct.Struct(f"={BATCH_SLOTS}q").pack_into
_CODECS = tuple(Codec)
_MISSES_MAX = 8
"""After this many non-plain batches in a row, a feed stops trying the fast path."""
_OF_TRANSACTIONS = CONTROL | TRANSACTIONAL


class PartitionDecoder:
    """Converts batches of one partition to RecordBatches of up to `rows_max` rows.

    `required`: columns declared not null, as in `columns.schema`. `on_corrupt` is called with the
    error of each corrupt batch, which is then skipped; without it CorruptBatch is raised. Not
    thread-safe.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        *,
        offset_from: int,
        offset_until: int = INT64_MAX,
        columns: Sequence[str] = COLUMNS,
        topic_dictionary: bool = False,
        required: Collection[str] = (),
        rows_max: int = ROWS_MAX,
        value_bytes: int = VALUE_BYTES,
        batch_bytes_max: int = DECOMPRESSED_BYTES_MAX,
        decode: DecodeRecords | None = None,
        on_corrupt: Callable[[CorruptBatch], None] | None = None,
    ) -> None:
        self.position = offset_from
        """The next offset to decode; all below were returned or skipped."""
        self.offset_until = offset_until
        self.consumed = 0
        """Bytes of the last fed data that were processed: where to continue, or where corrupt data
        is."""
        self.limits: tuple[int, int] | None = None
        """For data of a segment: the range in which offsets must lie and increase, else the data is
        corrupt. None for a Fetch response, which may repeat a batch."""
        self._name = f"{topic}-{partition}"
        self._decode = decode or records_decoder()
        self._on_corrupt = on_corrupt
        self._decompressor = Decompressor(batch_bytes_max)
        self._assembler = Assembler(topic, partition, rows_max, columns, topic_dictionary, required)
        key_bytes, header_bytes = value_bytes // _KEYS_SHARE, value_bytes // _HEADERS_SHARE
        sizes = (rows_max, key_bytes, value_bytes, header_bytes)
        self._pool = Pool(*sizes, columns=decoded(columns))
        self._filling: Buffers | None = None
        self.time_type = 0
        """Timestamp type of the buffered rows: LOG_APPEND_TIME or 0. A RecordBatch has a single
        type."""
        self.source: Array = np.empty(0, np.uint8)
        # The fast path reports too little about a corrupt batch to skip it.
        self._plain = plain_batch_decoder() if decode is None and on_corrupt is None else None
        self._state_before: Array | None = None

    @property
    def buffers(self) -> Buffers:
        """The buffers being filled. After a RecordBatch they are taken when the next row comes:
        until then a sequential reader has freed the last but one, whose memory is in the cache."""
        if self._filling is None:
            self._filling = self._pool.take()
        return self._filling

    @property
    def done(self) -> bool:
        """Whether `offset_until` is reached."""
        return self.position >= self.offset_until

    def feed(self, data: Bytes, aborted: Aborted = ()) -> Iterator[pa.RecordBatch]:
        """Yield RecordBatches as they fill up. `data` begins with a batch and may end within one.

        `data` must not change until the iterator is exhausted. Remaining rows are copied, for the
        next feed or `flush`.
        """
        view = memoryview(data)
        source = np.frombuffer(view, np.uint8)
        source.setflags(write=False)
        transactions = AbortedTransactions(aborted) if aborted else NONE_ABORTED
        self.consumed = misses = 0
        # Bytes after the range are not read: they may be half written.
        while not self.done:
            if self._plain is None or misses == _MISSES_MAX:
                yield from self._decode_each(view, source, transactions)
                return
            before = self.consumed
            outcome = self._plain.decode(source, self, aborted)
            if outcome is _EXHAUSTED:
                return
            if outcome is _CHUNK_FULL:
                yield from self._finish_batch(_FULL)
                continue
            misses = 0 if self.consumed > before else misses + 1
            before = self.consumed
            yield from self._decode_each(view, source, transactions, once=True)
            if self.consumed == before:
                return

    def _decode_each(
        self, view: memoryview, source: Array, transactions: AbortedTransactions,
        once: bool = False,
    ) -> Iterator[pa.RecordBatch]:  # fmt: skip
        """Decode batch by batch from `consumed` to the end of `view`; `once`: a single batch."""
        expected, limit = self.limits or (INT64_MIN, INT64_MAX)
        for at, header in iterate(view, self.consumed):
            base, length, _, _, crc, attributes, last_delta, _, _, _, _, _, count = header
            if base < expected or base + last_delta >= limit:
                raise CorruptBatch(f"offset {base} (+{last_delta}) outside {expected} to {limit}")
            if base >= self.offset_until:
                self.position = max(self.position, self.offset_until)
                return
            after = at + length + OVERHEAD_BYTES
            if self.limits is not None:
                expected = base + last_delta + 1
                self.limits = (expected, limit)
            if base + last_delta < self.position:
                self.consumed = after
                continue
            batch = view[at:after]
            self._state_before = None
            try:
                if crc32c(batch[CRC_FROM:]) != crc:
                    raise CorruptBatch("the checksum does not match")
                if not (attributes & _OF_TRANSACTIONS and transactions.leave_out(header, batch)):
                    if (attributes & LOG_APPEND_TIME) != self.time_type or count <= 0:
                        yield from self._prepare(header, batch)
                    if count > 0:
                        outcome = self._decode_batch(header, batch, source, at)
                        if outcome:
                            yield from self._finish_batch(outcome)
            except CorruptBatch as error:
                yield from self._corrupt(header, error)
            self.position = base + last_delta + 1
            self.consumed = after
            if once or self.position >= self.offset_until:
                return

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yield the remaining rows, if any."""
        if self.buffers.state[_ROWS]:
            yield self._emit()

    def _prepare(self, header: BatchHeader, batch: memoryview) -> Iterator[pa.RecordBatch]:
        """Yield the rows so far, as the next batch has another timestamp type, and set that type.

        A batch that compaction has emptied is checked instead. Raises CorruptBatch.
        """
        if header.record_count <= 0:
            if header.record_count or len(batch) > HEADER_BYTES:
                raise CorruptBatch(f"{header.record_count} records in {len(batch)} bytes")
            return  # Compaction keeps the header of a batch that it emptied.
        yield from self.flush()
        self.time_type = header.attributes & LOG_APPEND_TIME

    def _decode_batch(self, header: BatchHeader, batch: memoryview, source: Array, at: int) -> int:
        """Start decoding a batch; return the kernel's outcome. Flat code, as it runs once per
        batch."""
        base, _, _, _, _, attributes, last_delta, base_time, max_time, _, _, _, count = header
        codec = attributes & CODEC_MASK
        if codec == 0:
            begin, end = at + HEADER_BYTES, at + len(batch)
        else:
            known = _CODECS[codec] if codec < len(_CODECS) else codec_of(header)
            source = np.frombuffer(
                self._decompressor.decompress(known, batch[HEADER_BYTES:]), np.uint8
            )
            source.setflags(write=False)
            begin, end = 0, len(source)
        self.source = source
        buffers = self.buffers
        fixed = self.time_type != 0
        _pack_batch(
            buffers.state_bytes, 0, begin, end, count, base, last_delta, -1,
            max_time if fixed else base_time, fixed, self.position, self.offset_until,
        )  # fmt: skip
        if self._on_corrupt is not None:
            self._state_before = buffers.state.copy()
        return self._decode(source, buffers.state, *buffers.outs)

    def _finish_batch(self, outcome: int) -> Iterator[pa.RecordBatch]:
        """Yield full buffers until the batch is decoded; CorruptBatch if it is invalid."""
        while outcome != _DONE:
            if outcome < 0:
                raise CorruptBatch(COMPLAINTS[Outcome(outcome)])
            state = self.buffers.state
            progress = state[:BATCH_SLOTS].copy()
            if state[_ROWS]:
                yield self._emit()
            else:
                self.buffers.make_room(int(progress[Slot.END] - progress[Slot.POSITION]))
            state = self.buffers.state
            state[:BATCH_SLOTS] = progress
            if self._on_corrupt is not None:
                self._state_before = state.copy()
            outcome = self._decode(self.source, state, *self.buffers.outs)

    def _emit(self) -> pa.RecordBatch:
        filled, self._filling = self.buffers, None
        return self._assembler.assemble(filled, 1 if self.time_type else 0)

    def _corrupt(self, header: BatchHeader, error: CorruptBatch) -> Iterator[pa.RecordBatch]:
        named = CorruptBatch(f"{self._name} at offset {header.base_offset}: {error.message}")
        if self._on_corrupt is None:
            raise named from error
        # The kernel may have marked rows null and counted headers before it met the error, so
        # restore the counts before this batch and stop writing to this set.
        if self._state_before is not None:
            self.buffers.state[:] = self._state_before
        if self.buffers.state[_ROWS]:
            yield self._emit()
        else:
            self.buffers.renew()
        self._on_corrupt(named)
