"""Validation of records before they are appended (Kafka's LogValidator).

A compacted topic accepts no record without a key, and `compression.type` may need another codec.
Small uncompressed batches are checked on the event loop, others by a thread. Batches for other
topics are not checked here, except to name the records of a batch refused for its timestamps.
"""

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from headrace.model.errors import ApiError, ErrorCode
from headrace.record.batch import (
    CODEC_MASK,
    BatchHeader,
    codec_of,
    parse_header,
    recompress,
    records,
    size_of,
)
from headrace.record.batch_layout import HEADER_BYTES
from headrace.record.compression import Codec, CorruptBatch, decompress
from headrace.record.keyless import keyless
from headrace.record.stored_codec import level_of, stored_codec
from headrace.wire.kafka.hot.produce import RecordError

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.model.nouns import TopicPartition

IN_PASSING_RECORDS_MAX = 64
"""Records of a batch that is checked on the event loop, which takes about 30 µs."""
ERRORS_MAX = 1000
"""Invalid records that are named and counted in one answer at most."""
_BREATH_RECORDS = 256

Place = tuple[int, int]
"""A batch's topic and partition, by their places in the request."""
Outcome = ApiError | bytearray | None
"""The error of a refused batch, or the batch to append instead; None: append it unchanged."""


class RecordsRefused(ApiError):
    """A batch refused for some of its records, which are named (KIP-467)."""

    def __init__(self, code: ErrorCode, message: str, errors: Sequence[RecordError]) -> None:
        super().__init__(code, message)
        self.record_errors = errors


class Task(NamedTuple):
    """The checks and the conversion that a produced batch needs."""

    partition: "TopicPartition"
    keys: bool
    """Whether each record must have a key."""
    codec: Codec | None
    """The codec to store the batch in; None: its own."""
    level: int | None


def task_of(partition: "Partition", header: BatchHeader) -> Task | None:
    """Return the checks that a partition's topic needs for a batch, or None."""
    config = partition.log.config
    codec = stored_codec(config)
    if codec is not None and header.attributes & CODEC_MASK == codec:
        codec = None
    if codec is None and not partition.keys_needed:
        return None
    if size_of(header) > config.max_message_bytes:
        codec = None  # refused for its size when it is appended
    return Task(partition.topic_partition, partition.keys_needed, codec, level_of(config, codec))


def in_passing(task: Task, header: BatchHeader) -> bool:
    """Tell whether the batch may be checked on the event loop."""
    return task.codec is None and _quickly_read(header)


def _quickly_read(header: BatchHeader) -> bool:
    return header.record_count <= IN_PASSING_RECORDS_MAX and not header.attributes & CODEC_MASK


def check(view: memoryview, header: BatchHeader, task: Task, limit: int) -> bytearray | None:
    """Check and convert a sound batch, with at most `limit` bytes uncompressed.

    Returns the batch to append instead, or None. Raises RecordsRefused, or ApiError INVALID_RECORD
    if the records are malformed.
    """
    try:
        if task.keys:
            _check_keys(view, header, task.partition, limit)
        if task.codec is not None:
            return recompress(view, task.codec, task.level, limit)
    except CorruptBatch as error:
        raise ApiError(ErrorCode.INVALID_RECORD, error.message) from error
    return None


def _check_keys(
    view: memoryview, header: BatchHeader, partition: "TopicPartition", limit: int
) -> None:
    payload = decompress(codec_of(header), view[HEADER_BYTES:], limit)
    found = []
    for at in keyless(bytes(payload), header.record_count, _breathe):
        found.append(at)
        if len(found) >= ERRORS_MAX:
            break
    if found:
        why = f"{partition} is compacted, so a record needs a key"
        raise RecordsRefused(
            ErrorCode.INVALID_RECORD,
            f"{partition} is compacted: {len(found)} records of the batch have no key",
            [RecordError(at, why) for at in found],
        )


def _breathe(number: int) -> None:
    """Release the interpreter lock now and then: a thread would block the event loop for long."""
    if number % _BREATH_RECORDS == 0 and number:
        time.sleep(0)


def check_all(
    batches: "Iterable[tuple[Place, memoryview, Task]]", limit: int
) -> dict[Place, Outcome]:
    """Check several batches on a thread; return the outcomes by place in the request.

    Malformed batches are left to be refused when they are appended.
    """
    found: dict[Place, Outcome] = {}
    for place, view, task in batches:
        found[place] = None
        try:
            found[place] = check(view, parse_header(view), task, limit)
        except ApiError as error:
            found[place] = error
    return found


def named(error: ApiError, view: memoryview, partition: "Partition", now_ms: int) -> ApiError:
    """Return the error of a small batch with the records whose timestamps are invalid."""
    if error.code is not ErrorCode.INVALID_TIMESTAMP:
        return error
    header = parse_header(view)
    if not _quickly_read(header):
        return error
    config = partition.log.config
    earliest = now_ms - config.message_timestamp_before_max_ms
    latest = now_ms + config.message_timestamp_after_max_ms
    try:
        errors = [
            RecordError(
                at,
                f"timestamp {record.timestamp} is out of range, it should be within"
                f" {max(earliest, 0)} and {latest}",
            )
            for at, record in enumerate(records(view, len(view)))
            if record.timestamp > latest or 0 <= record.timestamp < earliest
        ]
    except CorruptBatch:
        return error
    return RecordsRefused(error.code, error.message or "", errors) if errors else error
