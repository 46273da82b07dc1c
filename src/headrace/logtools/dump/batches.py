"""Rows of `.log` files and KRaft snapshots: batches, and on request their records."""

from collections.abc import Iterator

from headrace.log.segment.scan import Batch, batches
from headrace.logtools.dump.decoded import Decoder, decoder_for
from headrace.logtools.dump.row import ReadAt, Row
from headrace.model.errors import CorruptLogError
from headrace.record.batch import (
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    CorruptBatch,
    Record,
    codec_of,
    parse_control,
)
from headrace.record.batch import records as records_of


def dump_batches(
    path: str, size: int, read_at: ReadAt, *, records: bool, topic: str | None = None
) -> Iterator[Row]:
    """Yield a row for each batch, after verifying its checksum, and then its records' rows if
    requested."""
    decode = decoder_for(path, topic)
    for batch in batches(read_at, 0, size, path):
        yield _batch_row(batch)
        if records:
            yield from _record_rows(batch, path, decode)


def _batch_row(batch: Batch) -> Row:
    header = batch.header
    attributes = header.attributes
    return {
        "base_offset": header.base_offset,
        "last_offset": header.base_offset + header.last_offset_delta,
        "count": header.record_count,
        "base_sequence": header.base_sequence,
        "last_sequence": (
            (header.base_sequence + header.last_offset_delta) & 0x7FFF_FFFF
            if header.base_sequence >= 0
            else -1
        ),
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "leader_epoch": header.leader_epoch,
        "transactional": bool(attributes & TRANSACTIONAL),
        "control": bool(attributes & CONTROL),
        "delete_horizon": header.base_timestamp if attributes & DELETE_HORIZON else None,
        "position": batch.position,
        "timestamp_type": "LogAppendTime" if attributes & LOG_APPEND_TIME else "CreateTime",
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "size": len(batch.view),
        "magic": header.magic,
        "compression": codec_of(header).name.lower(),
        "crc": header.crc,
    }


def _record_rows(batch: Batch, path: str, decode: Decoder | None) -> Iterator[Row]:
    control = bool(batch.header.attributes & CONTROL)
    try:
        for record in records_of(batch.view):
            row: Row = {
                "offset": record.offset,
                "timestamp": record.timestamp,
                "headers": [[name, value] for name, value in record.headers],
            }
            if control:
                row |= _control_row(record)
            elif decode is not None:
                row |= decode(record.key, record.value)
            else:
                row |= {"key": record.key, "value": record.value}
            yield row
    except CorruptBatch as error:
        raise CorruptLogError(f"{path} at byte {batch.position}: {error}") from error


def _control_row(record: Record) -> Row:
    """Return a transaction marker in words; KRaft's control records unchanged."""
    try:
        marker = parse_control(record)
    except CorruptBatch:
        return {"key": record.key, "value": record.value}
    return {"control": marker.type.name.lower(), "coordinator_epoch": marker.coordinator_epoch}
