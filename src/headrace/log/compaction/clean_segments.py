"""The work of a compaction: read old segments, write `.cleaned` ones (Kafka's Cleaner).

First pass: from the first dirty offset on, store the last offset of every key until the map is
full. Second pass: copy each segment from the log's start on, without superseded records, expired
tombstones, records of aborted transactions and old markers.

Blocking and long: made for a separate process, or a simulation. Only `.cleaned` files are written,
so the work can be stopped or fail at any point without harm to the log.
"""

import struct
from collections.abc import Callable, Generator, Iterator

from headrace.log import file_names
from headrace.log.compaction.job import Cleaned, Counts, Damaged, Done, Event, Job
from headrace.log.compaction.plan import Size, grouped
from headrace.log.compaction.records import INDEX_ENTRY_BYTES, Records, Span
from headrace.log.compaction.transactions import Transactions
from headrace.log.segment.scan import BadBatch, Batch, batches
from headrace.log.segment.segment import Segment
from headrace.log.segment.transaction_index import AbortedTransaction
from headrace.model.nouns import Offset
from headrace.ports.disk import Buffer, Disk
from headrace.record.batch import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    BatchHeader,
    codec_of,
)
from headrace.record.batch_layout import CRC_AT, CRC_FROM, HEADER, HEADER_BYTES, OVERHEAD_BYTES
from headrace.record.compression import Codec, CorruptBatch, compress, decompress
from headrace.record.crc32c import crc32c

Steps = Iterator[Event | int]
"""The progress of a job: events, and between them numbers of bytes read or written since.

At each number the caller may wait, continue on another thread, or stop.
"""

_STEP_BYTES = 1 << 20
_SYNC_BYTES = 32 << 20
"""Bytes between flushes of a segment being written.

One flush of a whole segment would delay other flushes for its whole duration.
"""
_PARTS_MAX = 512
_NO_TIMESTAMP = -1
_CRC = struct.Struct(">I")


def keys_max(job: Job, entry_bytes: int = INDEX_ENTRY_BYTES) -> int:
    """Return how many keys the map of `job` may hold: its bytes through the size of an entry."""
    return max(int(job.map_bytes // entry_bytes * job.load_factor), 1)


def compact(job: Job, disk: Disk, engine: Records) -> Steps:
    """Run `job`: yield each Cleaned segment when it is complete, then Done; Damaged ends the job.

    `engine` must hold no keys. Raises OSError.
    """
    run = _Compaction(job, disk, engine)
    try:
        end = (yield from run.map_keys()) + 1
        for group in run.groups(end):
            yield (yield from run.clean(group))
        yield Done(end, run.counts)
    except BadBatch as bad:
        yield Damaged(str(bad))


class _Compaction:
    def __init__(self, job: Job, disk: Disk, engine: Records) -> None:
        self._job = job
        self._disk = disk
        self._engine = engine
        self._unsaid = 0
        self._aborted = [
            AbortedTransaction(producer_id, Offset(first), Offset(last), Offset(stable))
            for producer_id, first, last, stable in job.aborted
        ]
        self._producers = {producer_id: (last, epoch) for producer_id, last, epoch in job.producers}
        self._transactions = Transactions(self._aborted)
        self._latest = -1
        self.counts = Counts()

    def _spent(self, size: int) -> None:
        self._unsaid += size

    def _said(self) -> int:
        size, self._unsaid = self._unsaid, 0
        return size

    def _batches(self, base: int, size: int, start: int = 0) -> Iterator[tuple[str, Batch]]:
        """Yield (file path, batch) from the batch with offset `start` on; CRCs are checked."""
        segment = self._segment(base, size)
        where = segment.path(file_names.LOG)
        position = 0
        if start > base:
            segment.index.load()
            position = segment.index.lookup(Offset(start))
        file = self._disk.open(where, writable=False)
        try:
            for batch in batches(file.read, position, size, where, base):
                self._spent(len(batch.view))
                yield where, batch
        finally:
            file.close()

    def _segment(self, base: int, size: int = 0, suffix: str = "") -> Segment:
        segment = Segment(
            self._disk,
            self._job.directory,
            Offset(base),
            index_bytes_max=self._job.segment_index_bytes,
            suffix=suffix,
        )
        segment.size = size
        return segment

    def _unfolded(self, header: BatchHeader, view: memoryview) -> Span:
        payload: Buffer = view[HEADER_BYTES:]
        if header.attributes & CODEC_MASK:
            payload = decompress(codec_of(header), payload, self._job.inflated_bytes_max)
        return Span(payload, header.record_count, header.base_offset, header.last_offset_delta)

    # --- first pass --------------------------------------------------------------------------

    def map_keys(self) -> Generator[int, None, int]:
        """Fill the map; return the offset up to which it includes every key."""
        job = self._job
        start = job.first_dirty
        transactions = Transactions(
            transaction for transaction in self._aborted if transaction.last_offset >= start
        )
        self._latest = start - 1
        for at, (base, size) in enumerate(job.segments):
            end = job.segments[at + 1][0] if at + 1 < len(job.segments) else job.upper
            if end <= start:
                continue
            for where, batch in self._batches(base, size, start):
                if self._map_batch(batch, transactions, start, where):
                    return self._latest
                if self._unsaid >= _STEP_BYTES:
                    yield self._said()
            # Up to the next segment there may be an offset gap.
            self._latest = max(self._latest, end - 1)
        return self._latest

    def _map_batch(self, batch: Batch, transactions: Transactions, start: int, where: str) -> bool:
        """Add a batch's keys to the map; return whether the map is full."""
        position, header, view = batch
        last = header.base_offset + header.last_offset_delta
        counts = self.counts
        counts.map_bytes_read += len(view)
        try:
            if header.attributes & CONTROL:
                transactions.marker_may_go(header, view)
            elif not transactions.may_go(header) and last >= start and header.record_count:
                full, noted = self._engine.index(self._unfolded(header, view), start)
                self._latest = max(self._latest, noted)
                if full:
                    return True
            counts.map_records += header.record_count
        except CorruptBatch as error:
            raise BadBatch(where, position, error.message or "corrupt") from error
        self._latest = max(self._latest, last)
        return False

    # --- second pass -------------------------------------------------------------------------

    def groups(self, end: int) -> list[list[Size]]:
        """Group the segments that begin below `end`; each group fits into one new segment."""
        found = [
            Size(
                base,
                size,
                self._size(base, file_names.INDEX),
                self._size(base, file_names.TIME_INDEX),
            )
            for base, size in self._job.segments
            if base < end
        ]
        job = self._job
        return grouped(found, job.upper, job.segment_bytes, job.segment_index_bytes)

    def _size(self, base: int, suffix: str) -> int:
        path = f"{self._job.directory}/{file_names.segment_file(base, suffix)}"
        if not self._disk.exists(path):
            return 0
        file = self._disk.open(path, writable=False)
        try:
            return file.size()
        finally:
            file.close()

    def clean(self, group: list[Size]) -> Generator[int, None, Cleaned]:
        """Copy a group of segments into one, complete and flushed under `.cleaned` names."""
        base = group[0].base_offset
        made = self._segment(base, suffix=file_names.CLEANED)
        for suffix in file_names.SEGMENT_SUFFIXES:
            if self._disk.exists(made.path(suffix)):
                self._disk.remove(made.path(suffix))
        made.create()
        writer = _Writer(made, self._job, self._spent)
        self._transactions.keep = made.txn_index.append
        modified_ms = 0
        try:
            for source in group:
                for where, batch in self._batches(source.base_offset, source.log_bytes):
                    self._copy(batch, writer, where)
                    if self._unsaid >= _STEP_BYTES:
                        yield self._said()
                modified_ms = self._modified_ms(source.base_offset)
            writer.write_out()
            for file in made.seal():
                file.sync()
            made.file.set_mtime_ms(modified_ms)
            txn = made.txn_index.open_file is not None
        finally:
            made.close()
        self._disk.sync_directory(self._job.directory)
        self.counts.bytes_written += made.size
        files = (
            file_names.LOG,
            file_names.INDEX,
            file_names.TIME_INDEX,
            *((file_names.TXN_INDEX,) if txn else ()),
        )
        sources = tuple((segment.base_offset, segment.log_bytes) for segment in group)
        return Cleaned(base, made.size, files, sources)

    def _modified_ms(self, base: int) -> int:
        path = f"{self._job.directory}/{file_names.segment_file(base, file_names.LOG)}"
        file = self._disk.open(path, writable=False)
        try:
            return file.mtime_ms()
        finally:
            file.close()

    def _copy(self, batch: Batch, writer: "_Writer", where: str) -> None:
        position, header, view = batch
        counts = self.counts
        counts.bytes_read += len(view)
        counts.records_read += header.record_count
        try:
            kept = self._kept(header, view)
        except CorruptBatch as error:
            raise BadBatch(where, position, error.message or "corrupt") from error
        if kept is None:
            return
        made, data = kept
        counts.records_kept += made.record_count
        writer.add(made, data)

    def _kept(self, header: BatchHeader, view: memoryview) -> tuple[BatchHeader, Buffer] | None:
        """Return header and bytes of the batch to write; None: drop it.

        As Kafka's checkBatchRetention and filterTo.
        """
        attributes = header.attributes
        horizon = header.base_timestamp if attributes & DELETE_HORIZON else None
        now_ms = self._job.now_ms
        past = horizon is not None and now_ms >= horizon
        if attributes & CONTROL:
            empty_transaction = self._transactions.marker_may_go(header, view)
            discard = empty_transaction and past
            if not discard and header.record_count:
                if empty_transaction and horizon is None:
                    span = self._unfolded(header, view)
                    return self._rewritten(header, span.payload, header.record_count, None)
                return header, view
        elif self._transactions.may_go(header):
            discard = True
        else:
            discard = header.record_count <= 0
            if not discard:
                span = self._unfolded(header, view)
                found = self._engine.filter(span, self._latest, not past)
                self.counts.keyless += found.keyless
                whole = found.kept == header.record_count
                if found.kept and whole and (horizon is not None or not found.tombstones):
                    return header, view
                if found.kept:
                    newest = header.base_timestamp + found.newest_delta
                    if attributes & LOG_APPEND_TIME:
                        newest = header.max_timestamp
                    made = header._replace(max_timestamp=newest)
                    keep = horizon is not None or not found.tombstones
                    since = header.base_timestamp if keep else None
                    return self._rewritten(made, found.payload, found.kept, since)
        return self._emptied(header)

    def _emptied(self, header: BatchHeader) -> tuple[BatchHeader, Buffer] | None:
        """Return header and bytes of an empty batch in this one's place; None: it is not needed.

        The last batch of a known producer has its sequence number; the last batch of the range
        marks the range's end.
        """
        last, epoch = self._producers.get(header.producer_id, (None, -1))
        if last is None or header.producer_id < 0:
            needed = False
        elif last >= 0:
            needed = header.base_offset + header.last_offset_delta == last
        else:
            needed = bool(header.attributes & CONTROL) and header.producer_epoch == epoch
        following = header.base_offset + header.last_offset_delta + 1
        if not needed and following != self._job.upper:
            return None
        made = header._replace(
            attributes=header.attributes & ~(CODEC_MASK | DELETE_HORIZON),
            base_timestamp=_NO_TIMESTAMP,
            record_count=0,
        )
        return sealed(made, b"")

    def _rewritten(
        self, header: BatchHeader, payload: Buffer, count: int, base_ms: int | None
    ) -> tuple[BatchHeader, Buffer]:
        """Return header and bytes of the batch with these records.

        `base_ms`: its base timestamp; None: set a delete horizon, `delete.retention.ms` from now.
        """
        attributes = header.attributes
        if base_ms is None:
            base_ms = self._job.now_ms + self._job.delete_retention_ms
            attributes |= DELETE_HORIZON
            payload = self._engine.rebase(payload, count, header.base_timestamp - base_ms)
        made = header._replace(attributes=attributes, base_timestamp=base_ms, record_count=count)
        return sealed(made, compress(Codec(attributes & CODEC_MASK), payload))


def sealed(header: BatchHeader, payload: bytes) -> tuple[BatchHeader, bytearray]:
    """Return header and batch for `payload`, with length and CRC computed."""
    out = bytearray(HEADER_BYTES + len(payload))
    out[HEADER_BYTES:] = payload
    made = header._replace(batch_length=len(out) - OVERHEAD_BYTES, crc=0)
    HEADER.pack_into(out, 0, *made)
    crc = crc32c(memoryview(out)[CRC_FROM:])
    _CRC.pack_into(out, CRC_AT, crc)
    return made._replace(crc=crc), out


class _Writer:
    """Writes batches to a segment, many per write, with index entries as an append makes them."""

    def __init__(self, segment: Segment, job: Job, spent: Callable[[int], None]) -> None:
        self._segment = segment
        self._every = job.index_interval_bytes
        self._buffer_bytes = job.io_buffer_bytes
        self._spent = spent
        self._parts: list[Buffer] = []
        self._held = 0
        self._unsynced = 0

    def add(self, header: BatchHeader, data: Buffer) -> None:
        segment = self._segment
        # A full index accepts no entry; a scan finds the batches behind its last entry.
        every = self._every if not segment.index.full and not segment.time_index.full else 1 << 62
        last = header.base_offset + header.last_offset_delta
        segment.note(last, header.max_timestamp, segment.size + self._held, every)
        segment.bytes_since_index += len(data)
        self._parts.append(data)
        self._held += len(data)
        if self._held >= self._buffer_bytes or len(self._parts) >= _PARTS_MAX:
            self.write_out()

    def write_out(self) -> None:
        """Write the buffered batches to the file."""
        if not self._parts:
            return
        segment = self._segment
        segment.file.write_at(segment.size, self._parts)
        segment.size += self._held
        self._spent(self._held)
        self._unsynced += self._held
        self._parts, self._held = [], 0
        if self._unsynced >= _SYNC_BYTES:
            self._unsynced = 0
            segment.file.sync()
