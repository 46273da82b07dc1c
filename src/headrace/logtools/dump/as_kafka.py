"""Output of Kafka's own DumpLogSegments (4.3), line for line.

So the two can be compared mechanically, and scripts can read either. Files that Kafka's tool does
not open (checkpoints, `meta.properties`) give `Ignoring unknown file` here as well; `dump` prints
them. Kafka's warnings on standard error are collected in `remarks`.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple

from headrace.log import file_names
from headrace.log.producers.producer_snapshot import read_snapshot
from headrace.log.segment import transaction_index
from headrace.log.segment.indexes import OFFSET_ENTRY, TIME_ENTRY
from headrace.log.text_files import read_file
from headrace.logtools.dump import segment_files
from headrace.logtools.dump.coordinators import Tables, coordinator_text
from headrace.logtools.dump.java_text import json_of, text_of
from headrace.logtools.dump.producer_lines import (
    SEQUENCE_MASK,
    aborted_line,
    optional,
    producer_line,
)
from headrace.model.errors import CorruptLogError, Malformed
from headrace.ports.disk import Disk, DiskFile
from headrace.record.batch import (
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    ControlType,
    CorruptBatch,
    Record,
    codec_of,
    crc_ok,
    parse_control,
    parse_header,
)
from headrace.record.batch import records as records_of
from headrace.record.batch_layout import HEADER_BYTES, OVERHEAD_BYTES
from headrace.wire.kafka.coordinator_records.offsets_tables import KRAFT_CONTROLS

_MAGIC_END = 17
_RECORD_SIZE_MIN = 14
_CHUNK_BYTES = 1 << 20
MAX_BYTES = 0x7FFF_FFFF
MAX_MESSAGE_SIZE = 5 << 20


@dataclass(frozen=True, slots=True)
class KafkaOptions:
    """DumpLogSegments' options, by their names."""

    print_data_log: bool = False
    deep_iteration: bool = False
    verify_index_only: bool = False
    index_sanity_check: bool = False
    skip_record_metadata: bool = False
    max_bytes: int = MAX_BYTES
    max_message_size: int = MAX_MESSAGE_SIZE
    tables: Tables | None = None
    """The record format chosen by `--offsets-decoder` and similar options; None: plain records."""


class _Frame(NamedTuple):
    position: int
    header: BatchHeader
    view: memoryview


class KafkaDump:
    """Dumps files one after the other; call `remarks` after the last one."""

    def __init__(self, disk: Disk, options: KafkaOptions) -> None:
        self._disk = disk
        self._options = options
        self._index_mismatches: dict[str, dict[int, int]] = {}
        self._time_mismatches: dict[str, list[tuple[int, int]]] = {}
        self._time_disorder: dict[str, list[tuple[int, int]]] = {}
        self._not_found: dict[str, list[tuple[int, int]]] = {}
        self._gaps: dict[str, dict[int, int]] = {}

    def lines(self, path: str, shown: str) -> Iterator[str]:
        """Yield the output lines of a file, which is called `shown` in them.

        CorruptLogError where Kafka's tool fails with a stack trace. Raises OSError.
        """
        name = path.rpartition("/")[2]
        suffix = name[name.rfind(".") :] if "." in name else ""
        yield f"Dumping {shown}"
        if suffix in (file_names.LOG, ".checkpoint"):
            yield from self._log(path)
        elif suffix == file_names.INDEX:
            yield from self._index(path, shown)
        elif suffix == file_names.TIME_INDEX:
            yield from self._time_index(path, shown)
        elif suffix == file_names.SNAPSHOT:
            content = read_file(self._disk, path) or b""
            yield from map(producer_line, read_snapshot(content, path))
        elif suffix == file_names.TXN_INDEX:
            yield from map(aborted_line, transaction_index.read_entries(self._content(path), path))

    @staticmethod
    def knows(name: str) -> bool:
        """Return whether Kafka's DumpLogSegments can dump a file with this name, by its suffix."""
        return name[name.rfind(".") :] in {
            file_names.LOG, ".checkpoint", file_names.INDEX, file_names.TIME_INDEX,
            file_names.SNAPSHOT, file_names.TXN_INDEX,
        }  # fmt: skip

    def remarks(self) -> Iterator[str]:
        """Yield the warnings that Kafka's tool prints on standard error after all files."""
        for path, wrong in self._index_mismatches.items():
            yield f"Mismatches in :{path}"
            for indexed in sorted(wrong, reverse=True):
                yield f"  Index offset: {indexed}, log offset: {wrong[indexed]}"
        for path, pairs in self._time_mismatches.items():
            yield f"Found timestamp mismatch in :{path}"
            for indexed, found in pairs:
                yield f"  Index timestamp: {indexed}, log timestamp: {found}"
        for path, pairs in self._time_disorder.items():
            yield f"Found out of order timestamp in :{path}"
            for indexed, earlier in pairs:
                yield f"  Index timestamp: {indexed}, Previously indexed timestamp: {earlier}"
        for pairs in self._not_found.values():
            yield "The following indexed offsets are not found in the log."
            for indexed, found in pairs:
                yield f"Indexed offset: {indexed}, found log offset: {found}"
        for path, gaps in self._gaps.items():
            yield f"Non-consecutive offsets in {path}"
            for before in sorted(gaps):
                yield f"  {before} is followed by {gaps[before]}"

    def _content(self, path: str) -> bytes:
        with closing(self._disk.open(path, writable=False)) as file:
            return file.read(0, file.size())

    # --- .log --------------------------------------------------------------------------------

    def _log(self, path: str) -> Iterator[str]:
        name = path.rpartition("/")[2]
        yield _headline(name)
        options = self._options
        deep = options.deep_iteration or options.print_data_log or options.tables is not None
        with closing(self._disk.open(path, writable=False)) as file:
            size = min(file.size(), options.max_bytes)
            valid, last = 0, -1
            for frame in _frames(file, 0, size, path):
                yield _batch_line(frame)
                if deep:
                    for record in _records(frame, path):
                        if record.offset != last + 1:
                            self._gaps.setdefault(path, {})[last] = record.offset
                        last = record.offset
                        yield self._record_line(frame.header, record)
                valid += len(frame.view)
            if size > valid and options.max_bytes == MAX_BYTES:
                yield f"Found {size - valid} invalid bytes at the end of {name}"

    def _record_line(self, header: BatchHeader, record: Record) -> str:
        options = self._options
        control = bool(header.attributes & CONTROL)
        parts = [] if options.skip_record_metadata else [_metadata_of(header, record)]
        if control and parts:
            parts.append(_control_text(record))
        if not control and (options.print_data_log or options.tables is not None):
            prefix = "| " if options.skip_record_metadata else " "
            key, payload = self._printed(record)
            if key is not None:
                parts.append(f"{prefix}key: {key}")
                prefix = " "
            if payload is not None:
                parts.append(f"{prefix}payload: {payload}")
        return "".join(parts)

    def _printed(self, record: Record) -> tuple[str | None, str | None]:
        if self._options.tables is not None:
            return coordinator_text(record, self._options.tables)
        return (
            None if record.key is None else text_of(record.key),
            None if record.value is None else text_of(record.value),
        )

    # --- indexes -----------------------------------------------------------------------------

    def _index(self, path: str, shown: str) -> Iterator[str]:
        base, content = segment_files.base_of(path), self._content(path)
        entries = list(OFFSET_ENTRY.iter_unpack(content[: len(content) // 8 * 8]))
        if not entries:
            yield f"{shown} is empty."
            return
        if self._options.index_sanity_check:
            if len(content) % OFFSET_ENTRY.size:
                raise CorruptLogError(f"{path}: {len(content)} bytes are no whole entries")
            if entries[-1][0] < 0:
                raise CorruptLogError(f"{path}: its last offset lies below {base}")
            yield f"{shown} passed sanity check."
            return
        with closing(self._disk.open(_log_beside(path), writable=False)) as log:
            for at, (relative, position) in enumerate(entries):
                if relative == 0 and at > 0:
                    return  # The rest of the index is preallocated.
                end = min(position + self._options.max_message_size, log.size())
                first = next(_frames(log, position, end, log.path), None)
                if first is None:
                    raise CorruptLogError(f"{path}: no batch at byte {position} of the log")
                if _last_of(first) != base + relative:
                    wrong = self._index_mismatches.setdefault(path, {})
                    wrong[base + relative] = _last_of(first)
                if not self._options.verify_index_only:
                    yield f"offset: {base + relative} position: {position}"

    def _time_index(self, path: str, shown: str) -> Iterator[str]:
        base, content = segment_files.base_of(path), self._content(path)
        entries = list(TIME_ENTRY.iter_unpack(content[: len(content) // 12 * 12]))
        if self._options.index_sanity_check:
            if len(content) % TIME_ENTRY.size:
                raise CorruptLogError(f"{path}: {len(content)} bytes are no whole entries")
            if entries and (entries[-1][0] < entries[0][0] or entries[-1][1] < 0):
                raise CorruptLogError(f"{path}: its last entry lies before its first")
            yield f"{shown} passed sanity check."
            return
        places = self._places(path)
        before = -1
        with closing(self._disk.open(_log_beside(path), writable=False)) as log:
            for at, (timestamp, relative) in enumerate(entries):
                if relative == 0 and at > 0:
                    return  # The rest of the index is preallocated.
                self._judge_time(path, log, places, timestamp, base + relative, before)
                if not self._options.verify_index_only:
                    yield f"timestamp: {timestamp} offset: {base + relative}"
                before = timestamp

    def _places(self, path: str) -> list[tuple[int, int]]:
        """Return the entries (offset, position) of the `.index` that belongs to a `.timeindex`."""
        beside_it = path.removesuffix(file_names.TIME_INDEX) + file_names.INDEX
        content = read_file(self._disk, beside_it) or b""
        base = segment_files.base_of(path)
        found = [
            (base + relative, position)
            for relative, position in OFFSET_ENTRY.iter_unpack(content[: len(content) // 8 * 8])
            if position
        ]
        return [(base, 0), *found]

    def _judge_time(
        self,
        path: str,
        log: DiskFile,
        places: list[tuple[int, int]],
        timestamp: int,
        offset: int,
        before: int,
    ) -> None:
        start = max(place for indexed, place in places if indexed <= offset)
        frames = _frames(log, start, log.size(), log.path)
        batch = next((frame for frame in frames if _last_of(frame) >= offset), None)
        if batch is None or _last_of(batch) != offset:
            last = -1 if batch is None else _last_of(batch)
            self._not_found.setdefault(path, []).append((offset, last))
            return
        newest = max((frame.timestamp for frame in _records(batch, log.path)), default=-1)
        if newest != timestamp:
            self._time_mismatches.setdefault(path, []).append((timestamp, newest))
        if before >= timestamp:
            self._time_disorder.setdefault(path, []).append((timestamp, before))


def _log_beside(path: str) -> str:
    directory, _, name = path.rpartition("/")
    return f"{directory}/{name.split('.')[0]}{file_names.LOG}"


def _headline(name: str) -> str:
    if name.endswith(file_names.LOG):
        return f"Log starting offset: {int(name.split('.')[0])}"
    if name == "bootstrap.checkpoint":
        return "KRaft bootstrap snapshot"
    offset, _, epoch = name.split(".")[0].partition("-")
    return f"Snapshot end offset: {int(offset)}, epoch: {int(epoch or 0)}"


def _frames(file: DiskFile, start: int, end: int, path: str) -> Iterator[_Frame]:
    """Yield batches unchecked, as Kafka's FileLogInputStream does, up to a torn one."""
    position, chunk, chunk_at = start, memoryview(b""), start
    while position < end - _MAGIC_END:
        at = position - chunk_at
        if len(chunk) - at < HEADER_BYTES:
            chunk_at, at = position, 0
            chunk = memoryview(file.read(position, min(_CHUNK_BYTES, end - position)))
            if len(chunk) < HEADER_BYTES:
                return
        header = parse_header(chunk, at)
        if header.batch_length < _RECORD_SIZE_MIN:
            raise CorruptLogError(
                f"{path} at byte {position}: a batch of {header.batch_length} bytes"
            )
        size = header.batch_length + OVERHEAD_BYTES
        if position + size > end:
            return
        if header.magic != 2:
            raise CorruptLogError(f"{path} at byte {position}: magic {header.magic}, not 2")
        if at + size > len(chunk):
            chunk_at, at = position, 0
            chunk = memoryview(file.read(position, min(max(size, _CHUNK_BYTES), end - position)))
        yield _Frame(position, header, chunk[at : at + size])
        position += size


def _records(frame: _Frame, path: str) -> Iterator[Record]:
    try:
        yield from records_of(frame.view)
    except CorruptBatch as error:
        raise CorruptLogError(f"{path} at byte {frame.position}: {error}") from error


def _last_of(frame: _Frame) -> int:
    return frame.header.base_offset + frame.header.last_offset_delta


def _sequence(base: int, delta: int) -> int:
    return (base + delta) & SEQUENCE_MASK if base >= 0 else -1


def _boolean(value: int) -> str:
    return "true" if value else "false"


def _time_name(header: BatchHeader) -> str:
    return "LogAppendTime" if header.attributes & LOG_APPEND_TIME else "CreateTime"


def _batch_line(frame: _Frame) -> str:
    header = frame.header
    attributes = header.attributes
    horizon = header.base_timestamp if attributes & DELETE_HORIZON else None
    return (
        f"baseOffset: {header.base_offset} lastOffset: {_last_of(frame)} "
        f"count: {header.record_count} baseSequence: {header.base_sequence} "
        f"lastSequence: {_sequence(header.base_sequence, header.last_offset_delta)} "
        f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
        f"partitionLeaderEpoch: {header.leader_epoch} "
        f"isTransactional: {_boolean(attributes & TRANSACTIONAL)} "
        f"isControl: {_boolean(attributes & CONTROL)} deleteHorizonMs: {optional(horizon)} "
        f"position: {frame.position} {_time_name(header)}: {header.max_timestamp} "
        f"size: {len(frame.view)} magic: {header.magic} "
        f"compresscodec: {codec_of(header).name.lower()} crc: {header.crc} "
        f"isvalid: {_boolean(crc_ok(frame.view, header))}"
    )


def _metadata_of(header: BatchHeader, record: Record) -> str:
    sequence = _sequence(header.base_sequence, record.offset - header.base_offset)
    keys = ",".join(name for name, _ in record.headers)
    key_size = -1 if record.key is None else len(record.key)
    value_size = -1 if record.value is None else len(record.value)
    return (
        f"| offset: {record.offset} {_time_name(header)}: {record.timestamp} keySize: {key_size} "
        f"valueSize: {value_size} sequence: {sequence} headerKeys: [{keys}]"
    )


def _control_text(record: Record) -> str:
    try:
        marker = parse_control(record)
        if marker.type <= ControlType.COMMIT:
            return f" endTxnMarker: {marker.type.name} coordinatorEpoch: {marker.coordinator_epoch}"
        words, message = KRAFT_CONTROLS[int(marker.type)]
        value = record.value or b""
        version = int.from_bytes(value[:2], "big", signed=True)
        return f" {words} {json_of(message.decode(value, version))}"
    except (CorruptBatch, Malformed, KeyError) as error:
        raise CorruptLogError(f"offset {record.offset}: no control record: {error}") from error
