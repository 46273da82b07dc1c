"""Kernel that decodes records of batch format v2 (DefaultRecord.java) to Arrow buffers.

Compiled without bounds checks, so it checks bounds itself: it reads nothing of `src` beyond END,
and writes only after the whole record was checked and fits every output buffer. `decode_python` is
its twin in plain Python; change both, or the property tests fail.
"""

# ruff: noqa: ANN001, ANN201, ANN202
# mypy: ignore-errors
# Types here are numba's, inferred from the arrays handed in; Python annotations would say nothing.

import numpy as np
from numba import njit

from headrace.kernels import layout
from headrace.kernels.layout import Outcome, Slot
from headrace.kernels.memory import byte_at, clear_bit, copy, copy_short, put, short_at
from headrace.kernels.same_shape import VAIN_MAX, take_same_shape, vain_tries_allowed

POSITION, END, RECORDS_LEFT = int(Slot.POSITION), int(Slot.END), int(Slot.RECORDS_LEFT)
BASE_OFFSET, LAST_DELTA = int(Slot.BASE_OFFSET), int(Slot.LAST_DELTA)
PREVIOUS_DELTA, BASE_TIME_MS = int(Slot.PREVIOUS_DELTA), int(Slot.BASE_TIME_MS)
FIXED_TIME, OFFSET_FROM = int(Slot.FIXED_TIME), int(Slot.OFFSET_FROM)
OFFSET_UNTIL, ROWS = int(Slot.OFFSET_UNTIL), int(Slot.ROWS)
KEY_BYTES, VALUE_BYTES = int(Slot.KEY_BYTES), int(Slot.VALUE_BYTES)
KEY_NULLS, VALUE_NULLS = int(Slot.KEY_NULLS), int(Slot.VALUE_NULLS)
HEADERS, HEADER_KEY_BYTES = int(Slot.HEADERS), int(Slot.HEADER_KEY_BYTES)
HEADER_VALUE_BYTES = int(Slot.HEADER_VALUE_BYTES)
HEADER_VALUE_NULLS = int(Slot.HEADER_VALUE_NULLS)
HEADER_LIST_NULLS = int(Slot.HEADER_LIST_NULLS)
DONE, FULL = int(Outcome.DONE), int(Outcome.FULL)
BAD_LENGTH, BAD_OFFSET, BAD_TIME = (
    int(Outcome.BAD_LENGTH), int(Outcome.BAD_OFFSET), int(Outcome.BAD_TIME)
)  # fmt: skip
BAD_KEY, BAD_VALUE = int(Outcome.BAD_KEY), int(Outcome.BAD_VALUE)
BAD_HEADERS, BAD_END = int(Outcome.BAD_HEADERS), int(Outcome.BAD_END)
INT64_MIN, INT64_MAX = layout.INT64_MIN, layout.INT64_MAX
MS_MAX, MS_MIN = INT64_MAX // 1000, -(INT64_MAX // 1000)
VARINT_SHIFT_MAX, VARLONG_SHIFT_MAX = 28, 63
UINT32_MAX = 0xFFFF_FFFF


@njit(boundscheck=False, _nrt=False)
def _long_varint(src, at, end):
    """Decode a zig-zag int32 of any length; results as in `read_varint`."""
    raw, shift = np.int64(0), np.int64(0)
    while True:
        if at >= end or shift > VARINT_SHIFT_MAX:
            return np.int64(0), np.int64(-1)
        byte = byte_at(src, at)
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    if raw > UINT32_MAX:
        return np.int64(0), np.int64(-1)
    return (raw >> 1) ^ -(raw & 1), at


@njit(boundscheck=False, _nrt=False)
def _long_varlong(src, at, end):
    """Decode a zig-zag int64 of any length; results as in `read_varint`."""
    raw, shift = np.uint64(0), np.uint64(0)
    while True:
        if at >= end or shift > np.uint64(VARLONG_SHIFT_MAX):
            return np.int64(0), np.int64(-1)
        byte = np.uint64(byte_at(src, at))
        at += 1
        if shift == np.uint64(VARLONG_SHIFT_MAX) and byte > np.uint64(1):
            return np.int64(0), np.int64(-1)
        raw |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            break
        shift += np.uint64(7)
    return np.int64(raw >> np.uint64(1)) ^ -np.int64(raw & np.uint64(1)), at


@njit(inline="always")
def read_varint(src, at, end):
    """Decode a zig-zag int32 at `at`: (value, position after it), position -1 if invalid.

    Inlined for one and two bytes, as most varints are; longer ones call `_long_varint`.
    """
    if at < end:
        byte = byte_at(src, at)
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1), at + 1
        if at + 1 < end:
            second = byte_at(src, at + 1)
            if second < 0x80:
                # The sign is the lowest bit of the first byte.
                return ((byte & 0x7F) >> 1 | second << 6) ^ -(byte & 1), at + 2
    return _long_varint(src, at, end)


@njit(inline="always")
def read_varlong(src, at, end):
    """Decode a zig-zag int64 at `at`: (value, position after it), position -1 if invalid."""
    if at < end:
        byte = byte_at(src, at)
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1), at + 1
        if at + 1 < end:
            second = byte_at(src, at + 1)
            if second < 0x80:
                return ((byte & 0x7F) >> 1 | second << 6) ^ -(byte & 1), at + 2
    return _long_varlong(src, at, end)


@njit(inline="always")
def _micros(base_ms, delta_ms):
    """Return a record's timestamp in µs. The sum wraps as in Java; values beyond int64 are
    clamped."""
    ms = base_ms + delta_ms
    if ms > MS_MAX:
        return np.int64(INT64_MAX)
    if ms < MS_MIN:
        return np.int64(INT64_MIN)
    return ms * 1000


@njit(inline="always")
def _measure_headers(src, at, end):
    """Return (count, key bytes, value bytes) of headers; count -1 unless they end exactly at
    `end`."""
    count, at = read_varint(src, at, end)
    key_bytes = np.int64(0)
    value_bytes = np.int64(0)
    # A header takes at least two bytes, so a larger count is invalid: do not loop over it.
    if at < 0 or count < 0 or count > (end - at) >> 1:
        return np.int64(-1), key_bytes, value_bytes
    for _ in range(count):
        size, at = read_varint(src, at, end)
        if at < 0 or size < 0 or size > end - at:
            return np.int64(-1), key_bytes, value_bytes
        key_bytes += size
        at += size
        size, at = read_varint(src, at, end)
        if at < 0 or size > end - at:
            return np.int64(-1), key_bytes, value_bytes
        if size > 0:
            value_bytes += size
            at += size
    if at != end:
        return np.int64(-1), key_bytes, value_bytes
    return count, key_bytes, value_bytes


@njit(inline="always")
def _write_headers(
    src, at, end, state, header_key_ends, header_keys, header_value_ends, header_values,
    header_value_valid,
):  # fmt: skip
    """Copy headers that `_measure_headers` has accepted and that fit."""
    count, at = read_varint(src, at, end)
    row = state[HEADERS]
    key_at = state[HEADER_KEY_BYTES]
    value_at = state[HEADER_VALUE_BYTES]
    for _ in range(count):
        size, at = read_varint(src, at, end)
        copy(header_keys, key_at, src, at, size)
        key_at += size
        at += size
        size, at = read_varint(src, at, end)
        if size < 0:
            clear_bit(header_value_valid, row)
            state[HEADER_VALUE_NULLS] += 1
        else:
            copy(header_values, value_at, src, at, size)
            value_at += size
            at += size
        row += 1
        put(header_key_ends, row, key_at)
        put(header_value_ends, row, value_at)
    state[HEADERS] = row
    state[HEADER_KEY_BYTES] = key_at
    state[HEADER_VALUE_BYTES] = value_at


@njit(inline="always")
def _put_headers(
    src, at, end, count, state, row, list_ends, list_valid, header_key_ends, header_keys,
    header_value_ends, header_values, header_value_valid,
):  # fmt: skip
    """Write the headers of one row to the output buffers."""
    if count == 0:
        clear_bit(list_valid, row)
        state[HEADER_LIST_NULLS] += 1
    else:
        _write_headers(
            src, at, end, state, header_key_ends, header_keys, header_value_ends, header_values,
            header_value_valid,
        )  # fmt: skip
    put(list_ends, row + 1, state[HEADERS])


@njit(inline="always")
def _parse_record(src, at, end, previous, last_delta):
    """Parse and check the record at `at`: (outcome, end, time delta, offset delta, key position and
    size, value position and size, headers' position). If the outcome is DONE, all bounds hold."""
    none = np.int64(0)
    size, begin = read_varint(src, at, end)
    if begin < 0 or size < 1 or size > end - begin:
        return BAD_LENGTH, none, none, none, none, none, none, none, none
    record_end = begin + size
    delta_ms, here = read_varlong(src, begin + 1, record_end)
    if here < 0:
        return BAD_TIME, none, none, none, none, none, none, none, none
    delta, here = read_varint(src, here, record_end)
    if here < 0 or delta <= previous or delta > last_delta:
        return BAD_OFFSET, none, none, none, none, none, none, none, none
    key_size, key_from = read_varint(src, here, record_end)
    if key_from < 0 or key_size > record_end - key_from:
        return BAD_KEY, none, none, none, none, none, none, none, none
    value_size, value_from = read_varint(src, key_from + max(key_size, 0), record_end)
    if value_from < 0 or value_size > record_end - value_from:
        return BAD_VALUE, none, none, none, none, none, none, none, none
    headers_from = value_from + max(value_size, 0)
    return (
        DONE, record_end, delta_ms, delta, key_from, key_size, value_from, value_size, headers_from
    )  # fmt: skip


@njit(inline="always")
def _put_bytes(src, source_at, size, ends, data, valid, row, at, state, nulls):
    """Copy a key or value that fits, or mark its row null; return the new end of `data`."""
    if size < 0:
        clear_bit(valid, row)
        state[nulls] += 1
    else:
        copy_short(data, at, src, source_at, size)
        at += size
    put(ends, row + 1, at)
    return at


@njit(inline="always")
def _record_fits(
    state, row, key_at, value_at, key_size, value_size, headers, offsets, key_ends, keys,
    value_ends, values, list_ends, header_key_ends, header_keys, header_values,
):  # fmt: skip
    """Return whether one record fits into all output buffers that are wanted."""
    count, header_key_size, header_value_size = headers
    return not (
        row >= offsets.shape[0]
        or (key_ends.shape[0] > 0 and key_size > keys.shape[0] - key_at)
        or (value_ends.shape[0] > 0 and value_size > values.shape[0] - value_at)
        or (
            list_ends.shape[0] > 0
            and (
                count > header_key_ends.shape[0] - 1 - state[HEADERS]
                or header_key_size > header_keys.shape[0] - state[HEADER_KEY_BYTES]
                or header_value_size > header_values.shape[0] - state[HEADER_VALUE_BYTES]
            )
        )
    )


# _nrt=False: nothing is allocated here, and numba's reference counting for each array passed to an
# inlined helper was measured at ten times the decoding itself.
@njit(cache=True, nogil=True, boundscheck=False, _nrt=False)
def decode_records(
    src, state, offsets, micros, key_ends, keys, key_valid, value_ends, values, value_valid,
    list_ends, list_valid, header_key_ends, header_keys, header_value_ends, header_values,
    header_value_valid,
):  # fmt: skip
    """Decode records from POSITION on until the batch is DONE or the next one does not fit (FULL).

    `src`: uint8, read-only. `*_ends`: int32 Arrow offsets, one more than rows; empty: not wanted.
    `*_valid`: validity bitmaps, all ones. Updates `state`; returns an `Outcome`.
    """
    at, end, left, last_delta = state[POSITION], state[END], state[RECORDS_LEFT], state[LAST_DELTA]
    previous, base_offset, until = state[PREVIOUS_DELTA], state[BASE_OFFSET], state[OFFSET_UNTIL]
    row, key_at, value_at = state[ROWS], state[KEY_BYTES], state[VALUE_BYTES]
    want_keys, want_values = key_ends.shape[0] > 0, value_ends.shape[0] > 0
    if at < 0 or end > src.shape[0]:
        return BAD_LENGTH
    outcome, vain_left = DONE, vain_tries_allowed(state)
    while left > 0:
        outcome, record_end, delta_ms, delta, key_from, key_size, value_from, value_size, here = (
            _parse_record(src, at, end, previous, last_delta)
        )
        if outcome != DONE:
            return outcome
        headers = _measure_headers(src, here, record_end)
        if headers[0] < 0:
            return BAD_HEADERS
        if state[OFFSET_FROM] <= base_offset + delta < until:
            if not _record_fits(
                state, row, key_at, value_at, key_size, value_size, headers, offsets, key_ends,
                keys, value_ends, values, list_ends, header_key_ends, header_keys, header_values,
            ):  # fmt: skip
                outcome = FULL
                break
            put(offsets, row, base_offset + delta)
            put(micros, row, _micros(state[BASE_TIME_MS], 0 if state[FIXED_TIME] else delta_ms))
            if want_keys:
                key_at = _put_bytes(
                    src, key_from, key_size, key_ends, keys, key_valid, row, key_at,
                    state, KEY_NULLS,
                )  # fmt: skip
            if want_values:
                value_at = _put_bytes(
                    src, value_from, value_size, value_ends, values, value_valid, row, value_at,
                    state, VALUE_NULLS,
                )  # fmt: skip
            if list_ends.shape[0] > 0:
                _put_headers(
                    src, here, record_end, headers[0], state, row, list_ends, list_valid,
                    header_key_ends, header_keys, header_value_ends, header_values,
                    header_value_valid,
                )  # fmt: skip
            row += 1
        begin, previous, at, left = at, delta, record_end, left - 1
        repeats = headers[0] == 0 and at + 2 <= end and short_at(src, at) == short_at(src, begin)
        if repeats and vain_left > 0:
            taken, previous = take_same_shape(
                src, state, begin, at - begin, end, left, row, key_at, value_at, delta, key_from,
                key_size, value_from, value_size, offsets, micros, key_ends, keys, key_valid,
                value_ends, values, value_valid, list_ends, list_valid,
            )  # fmt: skip
            vain_left = VAIN_MAX if taken > VAIN_MAX else vain_left - 1
            at += taken * (at - begin)
            row, left = row + taken, left - taken
            key_at += taken * max(key_size, 0) if want_keys else 0
            value_at += taken * max(value_size, 0) if want_values else 0
    if outcome == DONE and at != end:
        return BAD_END
    state[POSITION], state[RECORDS_LEFT], state[PREVIOUS_DELTA] = at, left, previous
    state[ROWS], state[KEY_BYTES], state[VALUE_BYTES] = row, key_at, value_at
    return outcome
