"""Twin of `decode_numba` in plain Python, for machines without numba and for tests.

Arguments, outcomes and buffers are those of `decode_numba.decode_records`; decodes 170,000
records/s. Rows are collected in lists and written to the buffers at the end of the call.
"""

from typing import Any

import numpy as np

from headrace.kernels.layout import INT64_MAX, INT64_MIN, MICROS_PER_MS, Outcome, Slot
from headrace.record.record import VARINT_BYTES_MAX, VARLONG_BYTES_MAX, read_varint_within

Array = np.ndarray[Any, Any]

_INT64_SPAN = 1 << 64
_MS_MAX = INT64_MAX // MICROS_PER_MS


class _Broken(Exception):
    """Carries an outcome out of nested calls."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome


def _varint(
    src: memoryview, at: int, end: int, outcome: Outcome, bytes_max: int = VARINT_BYTES_MAX
) -> tuple[int, int]:
    """Decode a zig-zag integer at `at`; return it and the position after it.

    _Broken with `outcome` if it is invalid.
    """
    number, at = read_varint_within(src, at, end, bytes_max)
    if at < 0:
        raise _Broken(outcome)
    return number, at


def _micros(base_ms: int, delta_ms: int) -> int:
    ms = (base_ms + delta_ms - INT64_MIN) % _INT64_SPAN + INT64_MIN
    if ms > _MS_MAX:
        return INT64_MAX
    if ms < -_MS_MAX:
        return INT64_MIN
    return ms * MICROS_PER_MS


def _headers(src: memoryview, at: int, end: int) -> list[tuple[bytes, bytes | None]]:
    count, at = _varint(src, at, end, Outcome.BAD_HEADERS)
    if count < 0 or count > (end - at) >> 1:
        raise _Broken(Outcome.BAD_HEADERS)
    headers: list[tuple[bytes, bytes | None]] = []
    for _ in range(count):
        size, at = _varint(src, at, end, Outcome.BAD_HEADERS)
        if size < 0 or size > end - at:
            raise _Broken(Outcome.BAD_HEADERS)
        key = bytes(src[at : at + size])
        size, at = _varint(src, at + size, end, Outcome.BAD_HEADERS)
        if size > end - at:
            raise _Broken(Outcome.BAD_HEADERS)
        headers.append((key, None if size < 0 else bytes(src[at : at + size])))
        at += max(size, 0)
    if at != end:
        raise _Broken(Outcome.BAD_HEADERS)
    return headers


class _Bytes:
    """A binary column that is being filled: Arrow offsets, data, validity."""

    def __init__(self, ends: Array, data: Array, valid: Array, row: int, at: int) -> None:
        self.wanted = len(ends) > 0
        self.room = len(data) - at
        self.ends, self.data, self.valid = ends, data, valid
        self.first_row, self.first_at = row, at
        self.items: list[bytes | None] = []

    def fits(self, size: int) -> bool:
        return not self.wanted or size <= self.room

    def add(self, item: bytes | None) -> None:
        self.items.append(item)
        self.room -= len(item or b"")

    def write(self) -> tuple[int, int]:
        """Write the collected rows to the buffers; return (bytes in data, nulls added)."""
        at, nulls = self.first_at, 0
        for row, item in enumerate(self.items, self.first_row):
            if item is None:
                nulls += 1
                _clear_bit(self.valid, row)
            else:
                at += len(item)
            self.ends[row + 1] = at
        joined = b"".join(item for item in self.items if item)
        self.data[self.first_at : at] = np.frombuffer(joined, np.uint8)
        return at, nulls


def _clear_bit(bitmap: Array, row: int) -> None:
    bitmap[row >> 3] &= ~(1 << (row & 7)) & 0xFF


class _Record:
    """A record that was parsed and checked, but not copied."""

    __slots__ = ("delta", "delta_ms", "end", "headers", "key", "value")

    def __init__(self, src: memoryview, slots: list[int]) -> None:
        at, end = slots[Slot.POSITION], slots[Slot.END]
        size, at = _varint(src, at, end, Outcome.BAD_LENGTH)
        if size < 1 or size > end - at:
            raise _Broken(Outcome.BAD_LENGTH)
        self.end = end = at + size
        self.delta_ms, at = _varint(src, at + 1, end, Outcome.BAD_TIME, VARLONG_BYTES_MAX)
        self.delta, at = _varint(src, at, end, Outcome.BAD_OFFSET)
        if not slots[Slot.PREVIOUS_DELTA] < self.delta <= slots[Slot.LAST_DELTA]:
            raise _Broken(Outcome.BAD_OFFSET)

        def field(at: int, outcome: Outcome) -> tuple[memoryview | None, int]:
            size, at = _varint(src, at, end, outcome)
            if size > end - at:
                raise _Broken(outcome)
            return (None if size < 0 else src[at : at + size]), at + max(size, 0)

        self.key, at = field(at, Outcome.BAD_KEY)
        self.value, at = field(at, Outcome.BAD_VALUE)
        self.headers = _headers(src, at, end)


class _Sink:
    """The rows of one call, collected until `write` copies them to the buffers."""

    def __init__(self, state: list[int], outs: tuple[Array, ...]) -> None:
        self.offset_room, self.micro_room, key_ends, keys, key_valid = outs[:5]
        value_ends, values, value_valid, self.list_ends, self.list_valid = outs[5:10]
        header_key_ends, header_keys, header_value_ends, header_values = outs[10:14]
        header_value_valid = outs[14]
        self.row, self.header_row = state[Slot.ROWS], state[Slot.HEADERS]
        self.keys = _Bytes(key_ends, keys, key_valid, self.row, state[Slot.KEY_BYTES])
        self.values = _Bytes(value_ends, values, value_valid, self.row, state[Slot.VALUE_BYTES])
        self.header_keys = _Bytes(
            header_key_ends, header_keys, header_value_valid, self.header_row,
            state[Slot.HEADER_KEY_BYTES],
        )  # fmt: skip
        self.header_values = _Bytes(
            header_value_ends, header_values, header_value_valid, self.header_row,
            state[Slot.HEADER_VALUE_BYTES],
        )  # fmt: skip
        self.counts: list[int] = []
        self.offsets: list[int] = []
        self.micros: list[int] = []

    def fits(self, record: _Record) -> bool:
        """Return whether every buffer has room for this record."""
        if self.row + len(self.offsets) >= len(self.offset_room):
            return False
        if not self.keys.fits(len(record.key or b"")):
            return False
        if not self.values.fits(len(record.value or b"")):
            return False
        if not len(self.list_ends):
            return True
        used = self.header_row + len(self.header_keys.items)
        return (
            len(record.headers) <= len(self.header_keys.ends) - 1 - used
            and self.header_keys.fits(sum(len(key) for key, _ in record.headers))
            and self.header_values.fits(sum(len(value or b"") for _, value in record.headers))
        )

    def add(self, record: _Record, offset: int, micros: int) -> None:
        """Add a record that fits."""
        if self.keys.wanted:
            self.keys.add(None if record.key is None else bytes(record.key))
        if self.values.wanted:
            self.values.add(None if record.value is None else bytes(record.value))
        if len(self.list_ends):
            self.counts.append(len(record.headers))
            for key, value in record.headers:
                self.header_keys.add(key)
                self.header_values.add(value)
        self.offsets.append(offset)
        self.micros.append(micros)

    def write(self, state: list[int]) -> None:
        """Write all rows to the buffers and update `state`."""
        until = self.row + len(self.offsets)
        self.offset_room[self.row : until] = self.offsets
        self.micro_room[self.row : until] = self.micros
        state[Slot.ROWS] = until
        if self.keys.wanted:
            state[Slot.KEY_BYTES], nulls = self.keys.write()
            state[Slot.KEY_NULLS] += nulls
        if self.values.wanted:
            state[Slot.VALUE_BYTES], nulls = self.values.write()
            state[Slot.VALUE_NULLS] += nulls
        if len(self.list_ends):
            self._write_headers(state)

    def _write_headers(self, state: list[int]) -> None:
        ends = self.header_row
        for row, count in enumerate(self.counts, self.row):
            ends += count
            self.list_ends[row + 1] = ends
            if not count:
                _clear_bit(self.list_valid, row)
                state[Slot.HEADER_LIST_NULLS] += 1
        state[Slot.HEADERS] = ends
        state[Slot.HEADER_KEY_BYTES], _ = self.header_keys.write()
        state[Slot.HEADER_VALUE_BYTES], nulls = self.header_values.write()
        state[Slot.HEADER_VALUE_NULLS] += nulls


def decode_records(src: Array, state: Array, *outs: Array) -> int:
    """Decode records until DONE or FULL, update `state` and return an `Outcome`, as the kernel
    does."""
    slots: list[int] = state.tolist()
    end = slots[Slot.END]
    if slots[Slot.POSITION] < 0 or end > len(src):
        return Outcome.BAD_LENGTH
    sink = _Sink(slots, outs)
    try:
        outcome = _walk(src.data, slots, sink)
    except _Broken as broken:
        return broken.outcome
    if outcome is Outcome.DONE and slots[Slot.POSITION] != end:
        return Outcome.BAD_END
    sink.write(slots)
    state[:] = slots
    return outcome


def _walk(src: memoryview, slots: list[int], sink: _Sink) -> Outcome:
    base_ms, fixed_time = slots[Slot.BASE_TIME_MS], slots[Slot.FIXED_TIME]
    first, until = slots[Slot.OFFSET_FROM], slots[Slot.OFFSET_UNTIL]
    while slots[Slot.RECORDS_LEFT] > 0:
        record = _Record(src, slots)
        offset = slots[Slot.BASE_OFFSET] + record.delta
        if first <= offset < until:
            if not sink.fits(record):
                return Outcome.FULL
            sink.add(record, offset, _micros(base_ms, 0 if fixed_time else record.delta_ms))
        slots[Slot.PREVIOUS_DELTA] = record.delta
        slots[Slot.POSITION] = record.end
        slots[Slot.RECORDS_LEFT] -= 1
    return Outcome.DONE
