"""Records of `__transaction_state`: the latest state of each transactional id.

key       int16 0, string transactional id
value v0  producer id, epoch, timeout, status, partitions, timestamps
value v1  the same, flexible (transaction.version >= 1), with tags: previous and next producer
          id, the client's transaction version, next epoch (KIP-939: with the next id, the
          producer that may end a prepared transaction)
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from headrace.model.errors import Malformed
from headrace.record.compression import CorruptBatch
from headrace.wire.kafka.coordinator_records.consumer_offsets import Tags, kept_tags, open_value
from headrace.wire.kafka.primitives import Bytes
from headrace.wire.kafka.reader import Reader
from headrace.wire.kafka.writer import Writer, writer_of

VALUE_VERSION_MAX = 1
_FLEXIBLE_FROM = 1
_INT64 = struct.Struct(">q")
_INT16 = struct.Struct(">h")
_PREVIOUS_TAG, _NEXT_TAG, _CLIENT_TAG, _NEXT_EPOCH_TAG = 0, 1, 2, 3


class TransactionStatus(IntEnum):
    """The status of a transactional id."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7


@dataclass(frozen=True, slots=True)
class TransactionKey:
    """Key of a transactional id."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class OtherTransactionKey:
    """A key of a type that this version does not know."""

    type: int
    rest: bytes


@dataclass(frozen=True, slots=True)
class TopicPartitions:
    """Partitions of one topic in a transaction."""

    topic: str
    partitions: Sequence[int]
    tags: Tags = ()


class TransactionValue(NamedTuple):
    """The state of a transactional id; `partitions` None: no transaction. Times in ms since 1970,
    or -1."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    status: TransactionStatus
    partitions: Sequence[TopicPartitions] | None
    last_update_timestamp: int
    start_timestamp: int
    previous_producer_id: int = -1
    next_producer_id: int = -1
    client_transaction_version: int = 0
    version: int = 0
    tags: Tags = ()
    next_producer_epoch: int = -1


def decode_key(data: Bytes) -> TransactionKey | OtherTransactionKey:
    """Decode a record key. Raises CorruptBatch."""
    reader = Reader(memoryview(data))
    try:
        key_type = reader.int16()
        if key_type == 0:
            return TransactionKey(reader.string())
    except Malformed as error:
        raise CorruptBatch(f"invalid key of __transaction_state: {error}") from None
    return OtherTransactionKey(key_type, bytes(reader.raw(reader.remaining())))


def encode_key(key: TransactionKey | OtherTransactionKey) -> bytes:
    """Encode a record key."""
    writer = Writer()
    if isinstance(key, TransactionKey):
        writer.int16(0)
        writer.string(key.transactional_id)
    else:
        writer.int16(key.type)
        writer.raw(key.rest)
    return bytes(writer.out)


def decode_value(data: Bytes) -> TransactionValue:
    """Decode a transactional id's state of any version. Raises CorruptBatch."""
    try:
        version, reader = open_value(data, VALUE_VERSION_MAX, _FLEXIBLE_FROM)
        producer_id, epoch = reader.int64(), reader.int16()
        timeout_ms, status = reader.int32(), TransactionStatus(reader.int8())
        partitions = _read_partitions(reader)
        updated, started = reader.int64(), reader.int64()
        tags = dict(kept_tags(reader))
        (before,) = _INT64.unpack(tags.pop(_PREVIOUS_TAG, _INT64.pack(-1)))
        (after,) = _INT64.unpack(tags.pop(_NEXT_TAG, _INT64.pack(-1)))
        (client,) = _INT16.unpack(tags.pop(_CLIENT_TAG, _INT16.pack(0)))
        (epoch_after,) = _INT16.unpack(tags.pop(_NEXT_EPOCH_TAG, _INT16.pack(-1)))
    except (Malformed, ValueError, struct.error) as error:
        raise CorruptBatch(f"invalid transaction: {error}") from None
    return TransactionValue(
        producer_id,
        epoch,
        timeout_ms,
        status,
        partitions,
        updated,
        started,
        before,
        after,
        client,
        version,
        tuple(tags.items()),
        epoch_after,
    )


def _read_partitions(reader: Reader) -> list[TopicPartitions] | None:
    count = reader.nullable_count(2)
    if count < 0:
        return None
    return [
        TopicPartitions(reader.string(), reader.int32s(), kept_tags(reader)) for _ in range(count)
    ]


def encode_value(value: TransactionValue) -> bytes:
    """Encode a transactional id's state in the version that it names."""
    writer = writer_of(value.version >= _FLEXIBLE_FROM)()
    writer.int16(value.version)
    writer.int64(value.producer_id)
    writer.int16(value.producer_epoch)
    writer.int32(value.timeout_ms)
    writer.int8(value.status)
    if value.partitions is None:
        writer.count(-1)
    else:
        writer.count(len(value.partitions))
        for topic in value.partitions:
            writer.string(topic.topic)
            writer.int32s(topic.partitions)
            writer.tags(topic.tags)
    writer.int64(value.last_update_timestamp)
    writer.int64(value.start_timestamp)
    writer.tags(_tags_of(value))
    return bytes(writer.out)


def _tags_of(value: TransactionValue) -> list[tuple[int, bytes]]:
    tags: list[tuple[int, bytes]] = []
    if value.previous_producer_id != -1:
        tags.append((_PREVIOUS_TAG, _INT64.pack(value.previous_producer_id)))
    if value.next_producer_id != -1:
        tags.append((_NEXT_TAG, _INT64.pack(value.next_producer_id)))
    if value.client_transaction_version != 0:
        tags.append((_CLIENT_TAG, _INT16.pack(value.client_transaction_version)))
    if value.next_producer_epoch != -1:
        tags.append((_NEXT_EPOCH_TAG, _INT16.pack(value.next_producer_epoch)))
    return tags + list(value.tags)
