"""`build_of_parts`: a batch of records whose keys and headers are already encoded.

For many records with equal keys or headers.
"""

from collections.abc import Sequence
from itertools import chain, count
from typing import NamedTuple

from headrace.record.batch import seal
from headrace.record.record import short_numbers, write_varint

Parts = tuple[bytes, bytes, bytes]
"""Encoded key (`record.sized`), raw value, encoded headers (`record.encoded_headers`)."""


class ProducerBatch(NamedTuple):
    """The place of a batch in an idempotent producer's sequence."""

    producer_id: int
    epoch: int
    sequence: int
    """Number of the batch's first record, modulo 2^31."""


NO_PRODUCER = ProducerBatch(-1, -1, -1)


def build_of_parts(
    records: Sequence[Parts],
    timestamp: int,
    attributes: int = 0,
    producer: ProducerBatch = NO_PRODUCER,
) -> bytes:
    """Build one batch of at least one record, all with one timestamp, offsets from 0.

    `attributes`: of the batch, uncompressed (`batch.LOG_APPEND_TIME`).
    """
    numbers = short_numbers()
    few = len(numbers)
    out: list[bytes] = []
    deltas = chain(numbers, map(write_varint, count(few)))
    for (key, value, headers), delta in zip(records, deltas, strict=False):
        size = len(value)
        value_size = numbers[size] if size < few else write_varint(size)
        size += 2 + len(delta) + len(key) + len(value_size) + len(headers)
        whole = numbers[size] if size < few else write_varint(size)
        out += (whole, b"\x00\x00", delta, key, value_size, value, headers)
    records_count = len(records)
    return seal(
        b"".join(out), 0, -1, attributes, records_count - 1, timestamp, timestamp, *producer,
        records_count,
    )  # fmt: skip
