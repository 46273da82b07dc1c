"""Records of `__share_group_state`: the state of share partitions (KIP-932, KIP-1226).

    key type 0   snapshot: the whole state of a share partition
    key type 1   update: changes since the snapshot with the same epoch

Values are flexible, version 0. The state of a batch of offsets is 0 available, 2 acknowledged or 4
archived.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headrace.model.errors import Malformed
from headrace.record.compression import CorruptBatch
from headrace.wire.kafka.coordinator_records.consumer_offsets import Tags, kept_tags, open_value
from headrace.wire.kafka.primitives import Bytes
from headrace.wire.kafka.reader import Reader
from headrace.wire.kafka.writer import CompactWriter, Writer

SNAPSHOT_KEY_TYPE = 0
UPDATE_KEY_TYPE = 1
NO_COUNT = -1
_COMPLETE_TAG = 0
_BATCH_BYTES_MIN = 20
_INT32 = struct.Struct(">i")
_BATCH = struct.Struct(">qqbh")

Batch = tuple[int, int, int, int]
"""First offset, last offset (inclusive), state, delivery count."""


@dataclass(frozen=True, slots=True)
class ShareKey:
    """Key of a share partition; `type` says whether the value is a snapshot or an update."""

    group: str
    topic_id: bytes
    partition: int
    type: int = SNAPSHOT_KEY_TYPE


@dataclass(frozen=True, slots=True)
class OtherShareKey:
    """A record key of a type that this version does not know, undecoded."""

    type: int
    rest: bytes


@dataclass(frozen=True, slots=True)
class SnapshotValue:
    """The whole state of a share partition. Times in ms since 1970."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    """Start offset (SPSO); -1: undecided, the group's share.auto.offset.reset applies."""
    create_timestamp: int
    write_timestamp: int
    batches: Sequence[Batch] = ()
    complete_count: int = NO_COUNT
    """Number of offsets from the start offset on that are acknowledged or archived; -1: not
    counted."""
    tags: Tags = ()


@dataclass(frozen=True, slots=True)
class UpdateValue:
    """Changes of a share partition's state since the snapshot with this epoch."""

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    """New start offset; -1 if unchanged."""
    batches: Sequence[Batch] = ()
    complete_count: int = NO_COUNT
    tags: Tags = ()


def decode_key(data: Bytes) -> ShareKey | OtherShareKey:
    """Decode a record key. Raises CorruptBatch."""
    reader = Reader(memoryview(data))
    try:
        key_type = reader.int16()
        if key_type in (SNAPSHOT_KEY_TYPE, UPDATE_KEY_TYPE):
            return ShareKey(reader.string(), bytes(reader.uuid()), reader.int32(), key_type)
    except Malformed as error:
        raise CorruptBatch(f"invalid key of __share_group_state: {error}") from None
    return OtherShareKey(key_type, bytes(reader.raw(reader.remaining())))


def encode_key(key: ShareKey | OtherShareKey) -> bytes:
    """Encode a record key."""
    writer = Writer()
    writer.int16(key.type)
    if isinstance(key, ShareKey):
        writer.string(key.group)
        writer.uuid(key.topic_id)
        writer.int32(key.partition)
    else:
        writer.raw(key.rest)
    return bytes(writer.out)


def decode_snapshot(data: Bytes) -> SnapshotValue:
    """Decode a snapshot. Raises CorruptBatch."""
    try:
        _, reader = open_value(data, 0, 0)
        epochs = reader.int32(), reader.int32(), reader.int32()
        start, created, written = reader.int64(), reader.int64(), reader.int64()
        batches = _read_batches(reader)
        complete, tags = _read_tags(reader)
    except (Malformed, struct.error) as error:
        raise CorruptBatch(f"invalid share snapshot: {error}") from None
    return SnapshotValue(*epochs, start, created, written, batches, complete, tags)


def decode_update(data: Bytes) -> UpdateValue:
    """Decode an update. Raises CorruptBatch."""
    try:
        _, reader = open_value(data, 0, 0)
        snapshot_epoch, leader_epoch, start = reader.int32(), reader.int32(), reader.int64()
        batches = _read_batches(reader)
        complete, tags = _read_tags(reader)
    except (Malformed, struct.error) as error:
        raise CorruptBatch(f"invalid share update: {error}") from None
    return UpdateValue(snapshot_epoch, leader_epoch, start, batches, complete, tags)


def encode_snapshot(value: SnapshotValue) -> bytes:
    """Encode a snapshot."""
    writer = CompactWriter()
    writer.int16(0)
    writer.int32(value.snapshot_epoch)
    writer.int32(value.state_epoch)
    writer.int32(value.leader_epoch)
    writer.int64(value.start_offset)
    writer.int64(value.create_timestamp)
    writer.int64(value.write_timestamp)
    _write_batches(writer, value.batches)
    _write_tags(writer, value.complete_count, value.tags)
    return bytes(writer.out)


def encode_update(value: UpdateValue) -> bytes:
    """Encode an update."""
    writer = CompactWriter()
    writer.int16(0)
    writer.int32(value.snapshot_epoch)
    writer.int32(value.leader_epoch)
    writer.int64(value.start_offset)
    _write_batches(writer, value.batches)
    _write_tags(writer, value.complete_count, value.tags)
    return bytes(writer.out)


def _read_batches(reader: Reader) -> list[Batch]:
    batches: list[Batch] = []
    for _ in range(reader.count(_BATCH_BYTES_MIN)):
        first, last, state, count = reader.unpack(_BATCH)
        reader.skip_tags()
        batches.append((first, last, state, count))
    return batches


def _write_batches(writer: Writer, batches: Iterable[Batch]) -> None:
    batches = tuple(batches)
    writer.count(len(batches))
    for batch in batches:
        writer.raw(_BATCH.pack(*batch))
        writer.tags()


def _read_tags(reader: Reader) -> tuple[int, Tags]:
    tags = dict(kept_tags(reader))
    (complete,) = _INT32.unpack(tags.pop(_COMPLETE_TAG, _INT32.pack(NO_COUNT)))
    return complete, tuple(tags.items())


def _write_tags(writer: Writer, complete_count: int, tags: Tags) -> None:
    own = [] if complete_count == NO_COUNT else [(_COMPLETE_TAG, _INT32.pack(complete_count))]
    writer.tags([*own, *tags])
