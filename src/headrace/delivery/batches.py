"""`stretches`: the parts of a log to deliver: records, not markers, gaps or aborted data."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from headrace.delivery.record_states import Acquired
from headrace.ports.disk import Buffer
from headrace.record.batch import CONTROL, TRANSACTIONAL, iterate
from headrace.record.batch_layout import (
    ATTRIBUTES,
    BASE_OFFSET,
    BATCH_LENGTH,
    LAST_OFFSET_DELTA,
    OVERHEAD_BYTES,
    PRODUCER_ID,
    RECORD_COUNT,
)


class Aborted(Protocol):
    """An aborted transaction: its producer id and its range of offsets."""

    @property
    def producer_id(self) -> int: ...

    @property
    def first_offset(self) -> int: ...

    @property
    def last_offset(self) -> int: ...


class Stretch(NamedTuple):
    """Offsets `first` to `last`, inclusive: a batch of records, or offsets without records."""

    first: int
    last: int
    wanted: bool
    begin: int
    """Byte range `begin` to `end` of the batch in the data."""
    end: int


def stretches(data: Buffer, at: int, aborted: Sequence[Aborted] = ()) -> Iterator[Stretch]:
    """Yield the batches from the one that holds offset `at` on, and the gaps between them."""
    expected = at
    for position, header in iterate(data):
        base, length, attributes = header[BASE_OFFSET], header[BATCH_LENGTH], header[ATTRIBUTES]
        last = base + header[LAST_OFFSET_DELTA]
        if last < at:
            continue
        if base > expected:
            yield Stretch(expected, base - 1, False, position, position)
        first = max(base, at)
        wanted = not attributes & CONTROL and header[RECORD_COUNT] > 0
        if wanted and aborted and attributes & TRANSACTIONAL:
            producer_id = header[PRODUCER_ID]
            wanted = not any(
                transaction.producer_id == producer_id
                and transaction.first_offset <= base <= transaction.last_offset
                for transaction in aborted
            )
        yield Stretch(first, last, wanted, position, position + length + OVERHEAD_BYTES)
        expected = last + 1


def covering(
    data: Buffer, batches: Sequence[Stretch], acquired: Sequence[Acquired]
) -> list[memoryview]:
    """Return the bytes of the batches that hold records of `acquired`; both are ascending."""
    view = memoryview(data)
    found: list[memoryview] = []
    begin = end = -1
    at = 0
    for batch in batches:
        while at < len(acquired) and acquired[at].last < batch.first:
            at += 1
        if at == len(acquired):
            break
        if acquired[at].first > batch.last:
            continue
        if batch.begin != end:
            if end > begin:
                found.append(view[begin:end])
            begin = batch.begin
        end = batch.end
    if end > begin:
        found.append(view[begin:end])
    return found
