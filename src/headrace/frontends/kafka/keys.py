"""Whether every record has a key: a compacted topic takes no others (Kafka's LogValidator).

Small batches that are not compressed are looked at in passing; the rest by a thread, in `later`.
Topics that are not compacted never come here.
"""

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from headrace.model.errors import ApiError, ErrorCode
from headrace.wire.kafka.batch import CODEC_MASK, HEADER_BYTES, BatchHeader, codec_of, parse_header
from headrace.wire.kafka.compression import CorruptBatch, decompress
from headrace.wire.kafka.hot.produce import RecordError
from headrace.wire.kafka.record import keyless

if TYPE_CHECKING:
    from headrace.model.nouns import TopicPartition

IN_PASSING_RECORDS_MAX = 64
"""About 30 µs of the event loop."""
ERRORS_MAX = 1000
"""Records named in one answer; the message counts no further either."""
_BREATH_RECORDS = 256


class KeylessRecords(ApiError):
    """INVALID_RECORD, with the records it is about (KIP-467)."""

    def __init__(self, partition: "TopicPartition", found: Sequence[int]) -> None:
        super().__init__(
            ErrorCode.INVALID_RECORD,
            f"{partition} is compacted: {len(found)} records of the batch have no key",
        )
        why = f"{partition} is compacted, so a record needs a key"
        self.record_errors = [RecordError(at, why) for at in found]


def in_passing(header: BatchHeader) -> bool:
    """Whether the batch may be looked at on the event loop."""
    return header.record_count <= IN_PASSING_RECORDS_MAX and not header.attributes & CODEC_MASK


def check(view: memoryview, header: BatchHeader, partition: "TopicPartition", limit: int) -> None:
    """Look at every record of a sound batch, which unfolds to `limit` bytes at most.

    ApiError: KeylessRecords; INVALID_RECORD where the records are none.
    """
    try:
        payload = decompress(codec_of(header), view[HEADER_BYTES:], limit)
        found = []
        for at in keyless(bytes(payload), header.record_count, _breathe):
            found.append(at)
            if len(found) >= ERRORS_MAX:
                break
    except CorruptBatch as error:
        raise ApiError(ErrorCode.INVALID_RECORD, error.message) from error
    if found:
        raise KeylessRecords(partition, found)


def _breathe(number: int) -> None:
    """Let the event loop have the interpreter now and then: a thread gives it up late by itself."""
    if number % _BREATH_RECORDS == 0 and number:
        time.sleep(0)


def check_all(
    batches: "Iterable[tuple[tuple[int, int], memoryview, TopicPartition]]", limit: int
) -> dict[tuple[int, int], ApiError | None]:
    """`check` of several batches, by their places in the request; for a thread.

    Batches that are not sound are left to be refused when they are to be appended.
    """
    found: dict[tuple[int, int], ApiError | None] = {}
    for place, view, partition in batches:
        found[place] = None
        try:
            check(view, parse_header(view), partition, limit)
        except ApiError as error:
            found[place] = error
    return found
