"""Record batch v2, the format of messages on the wire and on disk (KIP-98).

A batch is its 61-byte header (`batch_layout`) and encoded records. The broker validates it once
(`check_produced`), sets its offset and leader epoch (`stamp`), and passes the same bytes on.
`records` and `build` (de)code records: for clients, coordinators and tools, never on hot paths.
"""

import struct
from collections.abc import Iterator, Sequence
from enum import IntEnum
from itertools import chain
from typing import NamedTuple

from headrace.model.errors import ApiError, ErrorCode
from headrace.record.batch_layout import (
    ATTRIBUTES,
    ATTRIBUTES_AT,
    BASE_OFFSET,
    BASE_OFFSET_AT,
    BATCH_LENGTH,
    BATCH_LENGTH_AT,
    CRC_AT,
    CRC_FROM,
    HEADER,
    HEADER_BYTES,
    LAST_OFFSET_DELTA,
    LEADER_EPOCH_AT,
    LENGTH_MIN,
    MAGIC,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    OVERHEAD_BYTES,
)
from headrace.record.compressed_frame import check_frame
from headrace.record.compression import (
    DECOMPRESSED_BYTES_MAX,
    Codec,
    CorruptBatch,
    compress,
    decompress,
)
from headrace.record.crc32c import crc32c
from headrace.record.record import (
    ControlMarker,
    ControlType,
    Record,
    control_record,
    new_record,
    parse_control,
    read_record_lists,
    write_pairs,
    write_records,
)

__all__ = [
    "CONTROL",
    "DELETE_HORIZON",
    "LOG_APPEND_TIME",
    "TRANSACTIONAL",
    "BatchHeader",
    "Codec",
    "ControlMarker",
    "ControlType",
    "CorruptBatch",
    "Record",
    "TimestampType",
    "build",
    "build_marker",
    "build_pairs",
    "check_produced",
    "codec_of",
    "crc_ok",
    "iterate",
    "new_record",
    "next_offset",
    "parse_control",
    "parse_header",
    "record_lists",
    "records",
    "seal",
    "size_of",
    "stamp",
    "stamp_append_time",
]

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_UINT32 = struct.Struct(">I")
_INT64 = struct.Struct(">q")
_ZSTD_SINCE_PRODUCE = 7

Bytes = bytes | bytearray | memoryview


class TimestampType(IntEnum):
    """The kind of timestamp of a batch's records, bit 3 of the attributes."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The parsed header of a batch, fields in wire order."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int


_unpack = HEADER.unpack_from
_new = tuple.__new__  # makes a named tuple in two fifths of its constructor's time


def parse_header(view: Bytes, at: int = 0) -> BatchHeader:
    """Parse the batch header at byte `at` unchecked; CorruptBatch if under 61 bytes are left."""
    try:
        return _new(BatchHeader, _unpack(view, at))
    except struct.error:
        raise CorruptBatch(f"{len(view) - at} bytes are too few for a batch header") from None


def size_of(header: BatchHeader) -> int:
    """Return the size of a whole batch in bytes, header included."""
    return header[BATCH_LENGTH] + OVERHEAD_BYTES


def next_offset(header: BatchHeader) -> int:
    """Return the offset after the batch's last record."""
    return header[BASE_OFFSET] + header[LAST_OFFSET_DELTA] + 1


def codec_of(header: BatchHeader) -> Codec:
    """Return the batch's compression codec; CorruptBatch for an unknown codec number."""
    try:
        return Codec(header[ATTRIBUTES] & CODEC_MASK)
    except ValueError:
        raise CorruptBatch(f"codec {header[ATTRIBUTES] & CODEC_MASK} does not exist") from None


def crc_ok(view: Bytes, header: BatchHeader) -> bool:
    """Return whether the CRC32C of `view`, exactly one batch, matches its header."""
    return header.crc == crc32c(memoryview(view)[CRC_FROM:])


def check_produced(view: memoryview, produce_version: int = 13) -> BatchHeader:
    """Check that `view` is exactly one valid batch of a client, as a Produce request needs.

    Raises ApiError as Kafka 4.3 answers (ProduceRequest.validateRecords, LogValidator):
    CORRUPT_MESSAGE for a wrong length or CRC; UNSUPPORTED_COMPRESSION_TYPE for zstd before Produce
    v7 and for unknown codecs; INVALID_RECORD otherwise, also for compressed data that consumers
    cannot read. The topic's limits and sequence numbers are checked elsewhere.
    """
    try:
        header: BatchHeader = _new(BatchHeader, _unpack(view, 0))
    except struct.error:
        raise _refusal_of_stub(view) from None
    base, length, _, magic, crc, attributes, last_delta, _, _, producer, _, sequence, count = header
    if magic != MAGIC or length + OVERHEAD_BYTES != len(view):
        raise _refusal_of_frame(view, header)
    if crc32c(view[CRC_FROM:]) != crc:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, "the checksum does not match the batch")
    codec = attributes & CODEC_MASK
    if (
        base != 0
        or count <= 0
        or count != last_delta + 1
        or attributes & CONTROL
        or codec >= Codec.ZSTD
        or (sequence < 0 if producer >= 0 else attributes & TRANSACTIONAL)
    ):
        _refuse_content(header, produce_version)
    if codec:
        check_frame(codec, view)
    return header


def _refusal_of_stub(view: memoryview) -> ApiError:
    if len(view) > MAGIC_AT:
        (magic,) = struct.unpack_from(">b", view, MAGIC_AT)
        if magic in (0, 1):
            return _old_magic()
    if len(view) == 0:
        return ApiError(ErrorCode.INVALID_RECORD, "there must be a record batch")
    return ApiError(ErrorCode.CORRUPT_MESSAGE, "the batch is shorter than its header")


def _old_magic() -> ApiError:
    return ApiError(ErrorCode.INVALID_RECORD, "only batches of magic 2 are accepted")


def _refusal_of_frame(view: memoryview, header: BatchHeader) -> ApiError:
    if header.magic in (0, 1):
        return _old_magic()
    if header.magic != MAGIC:
        return ApiError(ErrorCode.CORRUPT_MESSAGE, f"magic {header.magic} does not exist")
    if size_of(header) > len(view) or header.batch_length < LENGTH_MIN:
        return ApiError(ErrorCode.CORRUPT_MESSAGE, "the batch's length does not match its data")
    return ApiError(ErrorCode.INVALID_RECORD, "there must be exactly one record batch")


def _refuse_content(header: BatchHeader, produce_version: int) -> None:
    codec = header.attributes & CODEC_MASK
    if codec > Codec.ZSTD:
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"codec {codec} does not exist")
    if codec == Codec.ZSTD and produce_version < _ZSTD_SINCE_PRODUCE:
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce v7 or later")
    refuse = ErrorCode.INVALID_RECORD
    if header.attributes & CONTROL:
        raise ApiError(refuse, "clients are not allowed to write control records")
    if header.base_offset != 0:
        raise ApiError(refuse, f"base offset must be 0, not {header.base_offset}")
    if header.record_count <= 0 or header.record_count != header.last_offset_delta + 1:
        raise ApiError(
            refuse,
            f"{header.record_count} records, but the last one has delta {header.last_offset_delta}",
        )
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise ApiError(refuse, f"sequence {header.base_sequence} with a producer id")
    if header.producer_id < 0 and header.attributes & TRANSACTIONAL:
        raise ApiError(refuse, "transactional without a producer id")


_pack_int64_into = _INT64.pack_into
_pack_int32_into = _INT32.pack_into


def stamp(view: bytearray | memoryview, base_offset: int, leader_epoch: int) -> None:
    """Write base offset and leader epoch in place; the CRC does not cover them and stays valid."""
    _pack_int64_into(view, BASE_OFFSET_AT, base_offset)
    _pack_int32_into(view, LEADER_EPOCH_AT, leader_epoch)


def stamp_append_time(view: bytearray | memoryview, now_ms: int) -> BatchHeader:
    """Set the LogAppendTime bit and `now_ms` as all records' time, in place; update the CRC."""
    (attributes,) = _INT16.unpack_from(view, ATTRIBUTES_AT)
    _INT16.pack_into(view, ATTRIBUTES_AT, attributes | LOG_APPEND_TIME)
    _INT64.pack_into(view, MAX_TIMESTAMP_AT, now_ms)
    _UINT32.pack_into(view, CRC_AT, crc32c(memoryview(view)[CRC_FROM:]))
    return parse_header(view)


def iterate(view: Bytes, at: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of each whole batch from byte `at` on; skip a torn last one.

    CorruptBatch for an impossible length or another magic. CRCs are not checked.
    """
    end = len(view)
    while at + HEADER_BYTES <= end:
        header: BatchHeader = _new(BatchHeader, _unpack(view, at))
        if header.magic != MAGIC or header[BATCH_LENGTH] < LENGTH_MIN:
            raise CorruptBatch(
                f"no batch at {at}: magic {header.magic}, length {header[BATCH_LENGTH]}"
            )
        following = at + header[BATCH_LENGTH] + OVERHEAD_BYTES
        if following > end:
            return
        yield at, header
        at = following


def records(view: Bytes, limit: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
    """Yield the records of one batch, decompressed; `record_lists` has the details."""
    return chain.from_iterable(record_lists(view, limit))


def record_lists(view: Bytes, limit: int = DECOMPRESSED_BYTES_MAX) -> Iterator[list[Record]]:
    """Yield the records of one batch, which starts at the beginning of `view`, in lists.

    Decompresses at most `limit` bytes. CorruptBatch (an ApiError) if the batch is torn, its records
    are malformed, or it exceeds the limit. The caller checks the CRC (`crc_ok`). Records of a
    control batch are not interpreted: see `parse_control`.
    """
    header = parse_header(view)
    if header.magic != MAGIC or not HEADER_BYTES <= size_of(header) <= len(view):
        raise CorruptBatch(f"magic {header.magic}, {size_of(header)} bytes of {len(view)}")
    payload = memoryview(view)[HEADER_BYTES : size_of(header)]
    append_time = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    return read_record_lists(
        payload, codec_of(header), count=header.record_count, base_offset=header.base_offset,
        base_timestamp=header.base_timestamp, append_time=append_time, limit=limit,
    )  # fmt: skip


def build(
    batch: "list[Record] | tuple[Record, ...]",
    *,
    base_offset: int = 0,
    compression: Codec = Codec.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    leader_epoch: int = -1,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    keep_offsets: bool = False,
) -> bytes:
    """Build one batch of at least one record, with length and CRC.

    Records get consecutive offsets from `base_offset` on. With `keep_offsets` they keep their own
    (ascending, none below `base_offset`), as after compaction.
    """
    if not batch:
        raise ValueError("a batch needs a record")
    base_timestamp = batch[0].timestamp
    last = batch[-1].offset - base_offset if keep_offsets else len(batch) - 1
    payload = write_records(
        batch, compression, base_timestamp, base_offset if keep_offsets else None
    )
    attributes = (
        int(compression)
        | (LOG_APPEND_TIME if timestamp_type is TimestampType.LOG_APPEND_TIME else 0)
        | (TRANSACTIONAL if transactional else 0)
        | (CONTROL if control else 0)
    )
    return seal(
        payload, base_offset, leader_epoch, attributes, last, base_timestamp,
        max(record.timestamp for record in batch), producer_id, producer_epoch, base_sequence,
        len(batch),
    )  # fmt: skip


def seal(payload: Bytes, base_offset: int, leader_epoch: int, attributes: int, *rest: int) -> bytes:
    """Return the batch of `payload` with CRC; `rest`: header fields from the last delta on."""
    out = bytearray(HEADER_BYTES)
    out += payload
    HEADER.pack_into(
        out, 0, base_offset, len(out) - OVERHEAD_BYTES, leader_epoch, MAGIC, 0, attributes, *rest
    )
    _UINT32.pack_into(out, CRC_AT, crc32c(memoryview(out)[CRC_FROM:]))
    return bytes(out)


def build_pairs(
    pairs: Sequence[tuple[bytes, bytes | None]],
    timestamp: int,
    *,
    compression: Codec = Codec.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
) -> bytes:
    """Build a batch of (key, value) pairs with one timestamp, transactional with a producer id."""
    if not pairs:
        raise ValueError("a batch needs a record")
    attributes = int(compression) | (TRANSACTIONAL if producer_id >= 0 else 0)
    return seal(
        write_pairs(pairs, compression), 0, -1, attributes, len(pairs) - 1, timestamp, timestamp,
        producer_id, producer_epoch, -1, len(pairs),
    )  # fmt: skip


def recompress(
    view: Bytes, codec: Codec, level: int | None = None, limit: int = DECOMPRESSED_BYTES_MAX
) -> bytearray:
    """Return the batch with its records compressed by another codec, length and CRC updated.

    The records are the same bytes in every codec and are not decoded. Raises CorruptBatch.
    """
    header = parse_header(view)
    packed = memoryview(view)[HEADER_BYTES : size_of(header)]
    out = bytearray(view[:HEADER_BYTES])
    out += compress(codec, decompress(codec_of(header), packed, limit), level)
    _INT32.pack_into(out, BATCH_LENGTH_AT, len(out) - OVERHEAD_BYTES)
    _INT16.pack_into(out, ATTRIBUTES_AT, header.attributes & ~CODEC_MASK | codec)
    _UINT32.pack_into(out, CRC_AT, crc32c(memoryview(out)[CRC_FROM:]))
    return out


def build_marker(
    control_type: ControlType,
    coordinator_epoch: int,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
) -> bytes:
    """Build the control batch that commits or aborts a transaction in a partition."""
    return build(
        [control_record(control_type, coordinator_epoch, timestamp)],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )
