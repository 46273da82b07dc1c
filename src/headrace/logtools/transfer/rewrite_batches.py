"""Rewrite data that must not reach another cluster unchanged: leader epochs, topic ids in commits.

A recreated topic starts with leader epoch 0. Batches and committed offsets with higher epochs would
make its clients believe that the broker is behind (KIP-320): they would wait for that epoch, or
assume that the log was truncated.
"""

from contextlib import closing
from dataclasses import replace

from headrace.log import file_names, text_files
from headrace.log.compaction.clean_segments import sealed
from headrace.log.segment.rebuild_indexes import reindex
from headrace.log.segment.scan import Batch, batches, headers
from headrace.logtools.verify.partition import segment_files
from headrace.model.nouns import NO_EPOCH, Offset
from headrace.ports.disk import Disk
from headrace.record.batch import CONTROL, CorruptBatch, Record, codec_of, records
from headrace.record.batch_layout import LEADER_EPOCH_AT
from headrace.record.record import write_records
from headrace.wire.kafka.coordinator_records import consumer_offsets
from headrace.wire.kafka.primitives import NO_UUID

_EPOCH_ZERO = bytes(4)


def reset_epochs(disk: Disk, partition: str) -> None:
    """Set all leader epochs in a partition's directory to 0. Raises BadBatch or OSError."""
    start: int | None = None
    for path, _ in segment_files(disk, partition):
        with closing(disk.open(path)) as file:
            for position, header in headers(file.read, 0, file.size(), path):
                start = header.base_offset if start is None else start
                if header.leader_epoch:
                    file.write_at(position + LEADER_EPOCH_AT, (_EPOCH_ZERO,))
            file.sync()
    entries = [] if start is None else [(0, start)]
    disk.replace(f"{partition}/{file_names.LEADER_EPOCHS}", text_files.write_epochs(entries))


def clear_commits(disk: Disk, partition: str) -> None:
    """Remove leader epochs and topic ids from the commits of a `__consumer_offsets` partition.

    Segments and indexes are rewritten with the same offsets. Raises BadBatch or OSError.
    """
    for path, base in segment_files(disk, partition):
        temporary = f"{path}.tmp"
        with (
            closing(disk.open(path, writable=False)) as file,
            closing(disk.open(temporary, create=True)) as target,
        ):
            target.truncate(0)
            at = 0
            for batch in batches(file.read, 0, file.size(), path, base):
                at += target.write_at(at, (_cleared(batch),))
            target.sync()
        disk.rename(temporary, path)
        reindex(disk, partition, Offset(base))
    disk.sync_directory(partition)


def _cleared(batch: Batch) -> bytes:
    header = batch.header
    if header.attributes & CONTROL:
        return bytes(batch.view)
    cleared = [_cleared_record(record) for record in records(batch.view)]
    payload = write_records(cleared, codec_of(header), header.base_timestamp, header.base_offset)
    return bytes(sealed(header, payload)[1])


def _cleared_record(record: Record) -> Record:
    if record.key is None or record.value is None:
        return record
    try:
        if not isinstance(consumer_offsets.decode_key(record.key), consumer_offsets.OffsetKey):
            return record
        value = consumer_offsets.decode_offset_value(record.value)
    except CorruptBatch:
        return record
    value = replace(value, leader_epoch=NO_EPOCH, topic_id=NO_UUID)
    return record._replace(value=consumer_offsets.encode_offset_value(value))
