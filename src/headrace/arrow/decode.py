"""Record batches of one partition to Arrow: what a Fetch brought, or what a segment holds.

    decoder = PartitionDecoder("orders", 0, offset_from=120, offset_until=5_000)
    for data in fetches:
        yield from decoder.feed(data)
    yield from decoder.flush()

Left out: control batches, what aborted transactions wrote (read_committed), records before
`offset_from` or from `offset_until` on. Gaps, as compaction leaves them, are nothing special.
Checked: length, magic, CRC32C, codec limits, and every length inside the records.
"""

import struct
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from headrace.arrow.columns import COLUMNS, Array, Assembler, Pool
from headrace.arrow.engine import Decode, decoder
from headrace.arrow.layout import BATCH_SLOTS, COMPLAINTS, INT64_MAX, Outcome, Slot
from headrace.arrow.unfold import Bytes, Unfolder
from headrace.wire.kafka.batch import (
    CONTROL,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    ControlType,
    codec_of,
    crc_ok,
    iterate,
    next_offset,
    parse_control,
    records,
    size_of,
)
from headrace.wire.kafka.compression import DECOMPRESSED_BYTES_MAX, Codec, CorruptBatch

ROWS_MAX = 10_000
"""Rows per RecordBatch. Spark was measured fastest between 5,000 and 20,000."""

KEY_BYTES = 2 * 1024 * 1024
VALUE_BYTES = 8 * 1024 * 1024
HEADER_BYTES_ROOM = 1024 * 1024
"""Room per RecordBatch; one that fills it ends early, a record beyond it gets room of its own."""

Aborted = Sequence[tuple[int, int]]
"""(producer id, first offset) of the aborted transactions a Fetch response lists."""

_BATCH_STATE = struct.Struct(f"={BATCH_SLOTS}q")


class AbortedTransactions:
    """Says which batches of one Fetch response belong to aborted transactions.

    A transaction is out from its first offset to its marker. Feed batches in offset order.
    """

    def __init__(self, aborted: Aborted) -> None:
        self._to_come = sorted(aborted, key=lambda entry: entry[1], reverse=True)
        self._open: set[int] = set()

    def leave_out(self, header: BatchHeader, batch: memoryview) -> bool:
        """Whether the batch's records are not for read_committed readers."""
        last_offset = next_offset(header) - 1
        while self._to_come and self._to_come[-1][1] <= last_offset:
            self._open.add(self._to_come.pop()[0])
        if header.attributes & CONTROL:
            self._close(header, batch)
            return True
        return bool(header.attributes & TRANSACTIONAL) and header.producer_id in self._open

    def _close(self, header: BatchHeader, batch: memoryview) -> None:
        if header.producer_id not in self._open or not header.record_count:
            return
        for record in records(batch):
            if parse_control(record).type is ControlType.ABORT:
                self._open.discard(header.producer_id)


class PartitionDecoder:
    """Turns the batches of one partition into RecordBatches of up to `rows_max` rows.

    `on_corrupt` is told of each batch that breaks the format, which is then stepped over;
    without it the CorruptBatch is raised. Holds buffers; feed it from one thread.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        *,
        offset_from: int,
        offset_until: int = INT64_MAX,
        columns: Sequence[str] = COLUMNS,
        rows_max: int = ROWS_MAX,
        batch_bytes_max: int = DECOMPRESSED_BYTES_MAX,
        decode: Decode | None = None,
        on_corrupt: Callable[[CorruptBatch], None] | None = None,
    ) -> None:
        self.position = offset_from
        """The next offset that is needed: everything below was handed out or left out."""
        self.offset_until = offset_until
        self._name = f"{topic}-{partition}"
        self._decode = decode or decoder()
        self._on_corrupt = on_corrupt
        self._unfolder = Unfolder(batch_bytes_max)
        self._assembler = Assembler(topic, partition, rows_max, columns)
        self._pool = Pool(rows_max, KEY_BYTES, VALUE_BYTES, HEADER_BYTES_ROOM, columns=columns)
        self._buffers = self._pool.take()
        self._timestamp_type = 0
        self._sound_state: Array | None = None

    @property
    def done(self) -> bool:
        """Whether `offset_until` is reached."""
        return self.position >= self.offset_until

    def feed(self, data: Bytes, aborted: Aborted = ()) -> Iterator[pa.RecordBatch]:
        """RecordBatches as they fill up. `data` starts with a batch and may end within one.

        `data` must stay as it is until the iterator is exhausted; rows that did not fill a
        RecordBatch are kept (copied) for the next feed or `flush`.
        """
        view = memoryview(data)
        source = np.frombuffer(view, np.uint8)
        source.setflags(write=False)
        transactions = AbortedTransactions(aborted)
        for at, header in iterate(view):
            if header.base_offset >= self.offset_until:
                self.position = max(self.position, self.offset_until)
                return
            if next_offset(header) <= self.position:
                continue
            batch = view[at : at + size_of(header)]
            self._sound_state = None
            try:
                if not crc_ok(batch, header):
                    raise CorruptBatch("the checksum does not match")
                if not transactions.leave_out(header, batch):
                    yield from self._decode_batch(header, batch, source, at)
            except CorruptBatch as error:
                yield from self._corrupt(header, error)
            self.position = next_offset(header)

    def flush(self) -> Iterator[pa.RecordBatch]:
        """The rows that are left, if any."""
        if self._buffers.state[Slot.ROWS]:
            yield self._emit()

    def _decode_batch(
        self, header: BatchHeader, batch: memoryview, source: Array, at: int
    ) -> Iterator[pa.RecordBatch]:
        if header.record_count <= 0:
            if header.record_count or len(batch) > HEADER_BYTES:
                raise CorruptBatch(f"{header.record_count} records in {len(batch)} bytes")
            return  # compaction keeps the header of a batch it emptied
        timestamp_type = 1 if header.attributes & LOG_APPEND_TIME else 0
        if timestamp_type != self._timestamp_type:
            yield from self.flush()
            self._timestamp_type = timestamp_type
        codec = codec_of(header)
        if codec is Codec.NONE:
            begin, end = at + HEADER_BYTES, at + len(batch)
        else:
            source = np.frombuffer(self._unfolder.unfold(codec, batch[HEADER_BYTES:]), np.uint8)
            source.setflags(write=False)
            begin, end = 0, len(source)
        _BATCH_STATE.pack_into(
            self._buffers.state_bytes, 0,
            begin, end, header.record_count, header.base_offset, header.last_offset_delta, -1,
            header.max_timestamp if timestamp_type else header.base_timestamp, timestamp_type,
            self.position, self.offset_until,
        )  # fmt: skip
        yield from self._walk(source)

    def _walk(self, source: Array) -> Iterator[pa.RecordBatch]:
        while True:
            state = self._buffers.state
            if self._on_corrupt is not None:
                self._sound_state = state.copy()
            outcome = self._decode(source, state, *self._buffers.outs)
            if outcome == Outcome.DONE:
                return
            if outcome < 0:
                raise CorruptBatch(COMPLAINTS[Outcome(outcome)])
            progress = state[:BATCH_SLOTS].copy()
            if state[Slot.ROWS]:
                yield self._emit()
            else:
                self._buffers.make_room(int(progress[Slot.END] - progress[Slot.POSITION]))
            self._buffers.state[:BATCH_SLOTS] = progress

    def _emit(self) -> pa.RecordBatch:
        filled = self._assembler.assemble(self._buffers, self._timestamp_type)
        self._buffers = self._pool.take()
        return filled

    def _corrupt(self, header: BatchHeader, error: CorruptBatch) -> Iterator[pa.RecordBatch]:
        named = CorruptBatch(f"{self._name} at offset {header.base_offset}: {error.message}")
        if self._on_corrupt is None:
            raise named from error
        # The kernel may have marked rows null and counted headers before it saw the damage: go
        # back to the counts before this batch, and write to this set no more.
        if self._sound_state is not None:
            self._buffers.state[:] = self._sound_state
        if self._buffers.state[Slot.ROWS]:
            yield self._emit()
        else:
            self._buffers.renew()
        self._on_corrupt(named)
