"""Fast path for records of the same shape as the previous one: equal lengths at equal places.

Most topics contain runs of them: keys of one size, values of one size, no headers. Comparing the
few bytes that encode the lengths replaces the parsing of such a record. Any other or invalid record
ends the run and is left to `decode_numba.decode_records`.
"""

# ruff: noqa: ANN001, ANN201, ANN202
# mypy: ignore-errors
# Types here are numba's, inferred from the arrays handed in; Python annotations would say nothing.

import numpy as np
from numba import njit

from headrace.kernels.layout import INT64_MAX, MICROS_PER_MS, Slot
from headrace.kernels.memory import (
    SHORT_BYTES,
    STRIDE,
    WIDE_STRIDE,
    address_of,
    clear_bit,
    load_8,
    load_16,
    load_64,
    move,
    move_32,
    move_64,
    put,
    store_32,
    store_64,
)

BASE_OFFSET, LAST_DELTA = int(Slot.BASE_OFFSET), int(Slot.LAST_DELTA)
PREVIOUS_DELTA, BASE_TIME_MS = int(Slot.PREVIOUS_DELTA), int(Slot.BASE_TIME_MS)
FIXED_TIME, OFFSET_FROM = int(Slot.FIXED_TIME), int(Slot.OFFSET_FROM)
OFFSET_UNTIL, HEADERS = int(Slot.OFFSET_UNTIL), int(Slot.HEADERS)
KEY_NULLS, VALUE_NULLS = int(Slot.KEY_NULLS), int(Slot.VALUE_NULLS)
HEADER_LIST_NULLS = int(Slot.HEADER_LIST_NULLS)

SLACK = WIDE_STRIDE
"""Bytes that may be read after the last record, and written after the last key and value."""
DELTA_MS_MAX = 1 << 13
"""Bound on the timestamp deltas of a run, in ms (two varint bytes)."""
VAIN_MAX = 4
"""How often per batch a record of equal length may turn out to have another shape."""
MS_MAX = INT64_MAX // MICROS_PER_MS
_DELTA_SPAN = 1 << 32
_GOES_ON = 0x80
_ALL_GO_ON = -0x7F7F_7F7F_7F7F_7F80  # The continuation bits of eight bytes.
_SECOND = 0x7F << 7  # The payload bits of a varint's second byte.


@njit(inline="always")
def _width(word, place):
    """Return the size of the varint at byte `place` of `word`: 1 or 2; 9 if it is longer."""
    if word >> (8 * place) & _GOES_ON == 0:
        return np.int64(1)
    return np.int64(2) if word >> (8 * place + 8) & _GOES_ON == 0 else np.int64(9)


@njit(inline="always")
def _number(word, shift, second):
    """Decode a zig-zag varint at bit `shift` of `word`; `second`: 0 if it has one byte only."""
    raw = word >> shift & 0x7F | word >> (shift + 1) & second
    return (raw >> 1) ^ -(raw & 1)


@njit(inline="always")
def _move_short(into, out_of, size):
    done = np.int64(0)
    while done < size:
        move_32(into + done, out_of + done)
        done += STRIDE


@njit(inline="always")
def _move_wide(into, out_of, size):
    if size > SHORT_BYTES:
        move(into, out_of, size)
        return
    done = np.int64(0)
    while done < size:
        move_64(into + done, out_of + done)
        done += WIDE_STRIDE


@njit(boundscheck=False, error_model="numpy", _nrt=False)
def _rows_that_fit(many, source, size, keys, key_size, values, value_size):
    """Return how many records, at most `many`, fit the remaining input and the key and value
    buffers."""
    many = min(many, source // size)
    if key_size > 0:
        many = min(many, (keys - SLACK) // key_size)
    if value_size > 0:
        many = min(many, (values - SLACK) // value_size)
    return many


@njit(boundscheck=False, _nrt=False)
def _take_at(
    at, size, key_from, key_size, value_from, value_size, many, previous, last_delta,
    base_offset, base_ms, time_mask, offsets, micros, key_ends, keys, key_at,
    value_ends, values, value_at,
):  # fmt: skip
    """Decode up to `many` records after the valid one at `at` that have the same shape.

    `at`, `offsets`, `micros`, `keys`, `values`, `*_ends` are addresses: of the record (`size`
    bytes, no headers) and of the next row; 0 for `*_ends`: column not wanted. `key_from` and
    `value_from` are relative to `at`; a null has size 0. There must be room to read and write
    `many` records plus SLACK. Returns the number decoded and the last one's offset delta.
    """
    none = np.int64(0)
    word = load_64(at)
    length_width = _width(word, 0)
    time_place = length_width + 1
    time_width = _width(word, time_place & 7)
    delta_place = time_place + time_width
    delta_width = _width(word, delta_place & 7)
    key_place = delta_place + delta_width
    value_width = value_from - key_from - key_size
    if (
        key_place > 7
        or key_from != key_place + 1
        or value_width > 2
        or value_from + value_size + 1 != size
    ):
        return none, previous
    # `same`: mask of the bytes that must be equal (length, key length) and of the continuation bits
    # between them.
    same = _ALL_GO_ON & ((1 << 8 * key_place) - 1) & ~((1 << 8 * time_place) - 1)
    same |= (1 << 8 * length_width) - 1 | np.int64(0xFF) << 8 * key_place
    value_same = 0xFFFF if value_width == 2 else 0xFF00
    value_word = load_16(at + value_from - 2)
    time_shift, delta_shift = 8 * time_place, 8 * delta_place
    time_second = _SECOND if time_width == 2 else none
    delta_second = _SECOND if delta_width == 2 else none
    taken = none
    while taken < many:
        at += size
        now = load_64(at)
        if (
            (now ^ word) & same
            | (load_16(at + value_from - 2) ^ value_word) & value_same
            | load_8(at + size - 1)
        ):
            break
        delta = _number(now, delta_shift, delta_second)
        if delta <= previous or delta > last_delta:
            break
        previous = delta
        delta_ms = _number(now, time_shift, time_second) & time_mask
        store_64(offsets + 8 * taken, base_offset + delta)
        store_64(micros + 8 * taken, (base_ms + delta_ms) * MICROS_PER_MS)
        if key_ends:
            _move_short(keys, at + key_from, key_size)
            keys += key_size
            key_at += key_size
            store_32(key_ends + 4 * taken, key_at)
        if value_ends:
            _move_wide(values, at + value_from, value_size)
            values += value_size
            value_at += value_size
            store_32(value_ends + 4 * taken, value_at)
        taken += 1
    return taken, previous


@njit(inline="always")
def vain_tries_allowed(state):
    """Return how often `take_same_shape` may fail in this batch: 0 if some rows are to be skipped,
    or if a timestamp might exceed the range of microseconds."""
    base_offset, base_ms = state[BASE_OFFSET], state[BASE_TIME_MS]
    if (
        state[OFFSET_FROM] <= base_offset + state[PREVIOUS_DELTA] + 1
        and base_offset <= INT64_MAX - _DELTA_SPAN
        and base_offset + state[LAST_DELTA] < state[OFFSET_UNTIL]
        and DELTA_MS_MAX - MS_MAX < base_ms < MS_MAX - DELTA_MS_MAX
    ):
        return np.int64(VAIN_MAX)
    return np.int64(0)


@njit(inline="always")
def _mark_nulls(
    state, row, taken, no_key, no_value, key_ends, key_valid, value_ends, value_valid,
    list_ends, list_valid,
):  # fmt: skip
    """Mark rows from `row` on as null in the key, value and headers columns that have no value."""
    no_keys = no_key and key_ends.shape[0] > 0
    no_values = no_value and value_ends.shape[0] > 0
    no_headers = list_ends.shape[0] > 0
    if no_keys:
        state[KEY_NULLS] += taken
    if no_values:
        state[VALUE_NULLS] += taken
    if no_headers:
        state[HEADER_LIST_NULLS] += taken
    if no_keys or no_values or no_headers:
        for place in range(row, row + taken):
            if no_keys:
                clear_bit(key_valid, place)
            if no_values:
                clear_bit(value_valid, place)
            if no_headers:
                clear_bit(list_valid, place)
                put(list_ends, place + 1, state[HEADERS])


@njit(inline="always")
def take_same_shape(
    src, state, at, size, end, left, row, key_at, value_at, delta, key_from, key_size, value_from,
    value_size, offsets, micros, key_ends, keys, key_valid, value_ends, values, value_valid,
    list_ends, list_valid,
):  # fmt: skip
    """Decode records of the same shape as the decoded one at `at`, which has no headers; return
    their number and the last one's offset delta."""
    no_key, no_value = key_size < 0, value_size < 0
    key_size, value_size = max(key_size, 0), max(value_size, 0)
    want_keys, want_values = key_ends.shape[0] > 0, value_ends.shape[0] > 0
    source, following = address_of(src), 4 * row + 4
    many = _rows_that_fit(
        min(left, offsets.shape[0] - row), min(end, src.shape[0] - SLACK) - at - size, size,
        keys.shape[0] - key_at, key_size if want_keys else 0,
        values.shape[0] - value_at, value_size if want_values else 0,
    )  # fmt: skip
    if many <= 0:
        return np.int64(0), delta
    taken, delta = _take_at(
        source + at, size, key_from - at, key_size, value_from - at, value_size, many, delta,
        state[LAST_DELTA], state[BASE_OFFSET], state[BASE_TIME_MS],
        np.int64(0) if state[FIXED_TIME] else np.int64(-1),
        address_of(offsets) + 8 * row, address_of(micros) + 8 * row,
        address_of(key_ends) + following if want_keys else np.int64(0),
        address_of(keys) + key_at, key_at,
        address_of(value_ends) + following if want_values else np.int64(0),
        address_of(values) + value_at, value_at,
    )  # fmt: skip
    _mark_nulls(
        state, row, taken, no_key, no_value, key_ends, key_valid, value_ends, value_valid,
        list_ends, list_valid,
    )  # fmt: skip
    return taken, delta
