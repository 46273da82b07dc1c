"""Bulk encoding: many values with one key and headers, cut into batches and encoded together."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from headrace.record.compression import Codec
from headrace.record.encoded_records import EncodedRecords
from headrace.record.record import Header, write_values

_RECORD_BYTES = 12
"""Approximate size of a record apart from key, value and headers, in bytes."""


def bytes_beside(key: bytes | None, headers: Sequence[Header]) -> int:
    """Return the approximate size in bytes of a record without its value."""
    size = _RECORD_BYTES + len(key or b"")
    for name, content in headers:
        size += 2 + len(name) + len(content or b"")
    return size


def encode_values(
    values: Sequence[bytes],
    key: bytes | None,
    headers: Sequence[Header],
    timestamp: int,
    *,
    batch_bytes: int,
    codec: Codec,
) -> Iterator[tuple[EncodedRecords, int]]:
    """Yield encoded batches of records that differ only in their value, each with its size in
    bytes.

    A batch has at most `batch_bytes`, counted as `Producer.send` counts; a larger record is a batch
    by itself.
    """
    beside = bytes_beside(key, headers)
    ends = list(accumulate(map(beside.__add__, map(len, values))))
    begin = size_before = 0
    while begin < len(values):
        end = max(bisect_right(ends, size_before + batch_bytes, begin), begin + 1)
        payload = write_values(values[begin:end], key, headers, codec)
        encoded = EncodedRecords(payload, codec, end - begin, timestamp, timestamp)
        yield encoded, ends[end - 1] - size_before
        begin, size_before = end, ends[end - 1]
