"""Kernels that encode Arrow columns to records of batch v2, and assign rows to partitions.

Compiled without bounds checks, so they check bounds themselves: nothing is read or written unless
the whole record's offsets lie in their data and the record fits. `encode_python` is the twin.
"""

# ruff: noqa: ANN001, ANN201, ANN202
# mypy: ignore-errors
# Types here are numba's, inferred from the arrays handed in; Python annotations would say nothing.

import numpy as np
from numba import njit

from headrace.kernels.encode_layout import Divided, Encoded, EncodeSlot
from headrace.kernels.memory import byte_at, copy_short, word_at

NEXT, BYTES, COUNT = int(EncodeSlot.NEXT), int(EncodeSlot.BYTES), int(EncodeSlot.COUNT)
BASE_MS, MAX_MS, NEEDED = (
    int(EncodeSlot.BASE_MS), int(EncodeSlot.MAX_MS), int(EncodeSlot.NEEDED)
)  # fmt: skip
DONE, FULL = int(Encoded.DONE), int(Encoded.FULL)
TOO_LARGE, BAD = int(Encoded.TOO_LARGE), int(Encoded.BAD)
DIVIDED, BAD_TOPIC = int(Divided.DONE), int(Divided.BAD_TOPIC)
BAD_PARTITION, BAD_KEY = int(Divided.BAD_PARTITION), int(Divided.BAD_KEY)
MASK, MULTIPLIER, SEED, SHIFT = 0xFFFF_FFFF, 0x5BD1_E995, 0x9747_B28C, 24


@njit(inline="always")
def _zigzag(number):
    return np.uint64((number << 1) ^ (number >> 63))


@njit(inline="always")
def _varint_bytes(number):
    left, size = _zigzag(number), np.int64(1)
    while left >= np.uint64(0x80):
        left >>= np.uint64(7)
        size += 1
    return size


@njit(inline="always")
def _put_varint(out, at, number):
    left = _zigzag(number)
    while left >= np.uint64(0x80):
        out[at] = np.uint8((left & np.uint64(0x7F)) | np.uint64(0x80))
        left >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(left)
    return at + 1


@njit(inline="always")
def _place(ends, data, there, row):
    """Return begin and size of a row's bytes; size -1: null, -2: the offsets exceed the data."""
    if ends.shape[0] == 0 or (there.shape[0] > 0 and there[row] == 0):
        return np.int64(0), np.int64(-1)
    begin, end = np.int64(ends[row]), np.int64(ends[row + 1])
    if begin < 0 or end < begin or end > data.shape[0]:
        return np.int64(0), np.int64(-2)
    return begin, end - begin


@njit(inline="always")
def _put_bytes(out, at, data, begin, size):
    at = _put_varint(out, at, size)
    if size > 0:
        copy_short(out, at, data, begin, size)
        at += size
    return at


@njit(inline="always")
def _headers_range(list_ends, list_there, row, headers):
    """Return the index of a row's first header and their count; count -2 if offsets are invalid."""
    if list_ends.shape[0] == 0 or (list_there.shape[0] > 0 and list_there[row] == 0):
        return np.int64(0), np.int64(0)
    first, end = np.int64(list_ends[row]), np.int64(list_ends[row + 1])
    if first < 0 or end < first or end > headers:
        return np.int64(0), np.int64(-2)
    return first, end - first


@njit(inline="always")
def _headers_bytes(first, count, key_ends, keys, value_ends, values, value_there):
    """Return the encoded size of headers; -2 if offsets are invalid."""
    size = _varint_bytes(count)
    for at in range(first, first + count):
        _, key_size = _place(key_ends, keys, value_there[:0], at)
        _, value_size = _place(value_ends, values, value_there, at)
        if key_size < 0 or value_size < -1:
            return np.int64(-2)
        size += _varint_bytes(key_size) + key_size
        size += _varint_bytes(value_size) + max(value_size, 0)
    return size


@njit(cache=True, nogil=True, boundscheck=False)
def encode_records(
    state, order, until, out, limit, times_ms, key_ends, keys, key_there, value_ends, values,
    value_there, list_ends, list_there, header_key_ends, header_keys, header_value_ends,
    header_values, header_value_there,
):  # fmt: skip
    """Write the records of the rows `order[NEXT:until]` to `out`, at most `limit` bytes.

    Updates `state`; returns an `Encoded`. The first record may exceed `limit` if it fits `out`.
    """
    at, count, position = np.int64(0), np.int64(0), state[NEXT]
    headers, outcome = header_key_ends.shape[0] - 1, DONE
    state[NEEDED] = 0
    while position < until:
        row = order[position]
        if row < 0 or row >= times_ms.shape[0]:
            return BAD
        time_ms = times_ms[row]
        if count == 0:
            state[BASE_MS] = state[MAX_MS] = time_ms
        key_at, key_size = _place(key_ends, keys, key_there, row)
        value_at, value_size = _place(value_ends, values, value_there, row)
        first, header_count = _headers_range(list_ends, list_there, row, headers)
        if key_size < -1 or value_size < -1 or header_count < 0:
            return BAD
        header_bytes = _headers_bytes(
            first, header_count, header_key_ends, header_keys, header_value_ends, header_values,
            header_value_there,
        )  # fmt: skip
        if header_bytes < 0:
            return BAD
        delta_ms = time_ms - state[BASE_MS]
        body = (
            1 + _varint_bytes(delta_ms) + _varint_bytes(count)
            + _varint_bytes(key_size) + max(key_size, 0)
            + _varint_bytes(value_size) + max(value_size, 0) + header_bytes
        )  # fmt: skip
        whole = _varint_bytes(body) + body
        if (count > 0 and at + whole > limit) or at + whole > out.shape[0]:
            state[NEEDED] = whole
            outcome = FULL if count > 0 else TOO_LARGE
            break
        at = _put_varint(out, at, body)
        out[at] = 0
        at = _put_varint(out, _put_varint(out, at + 1, delta_ms), count)
        at = _put_bytes(out, at, keys, key_at, key_size)
        at = _put_bytes(out, at, values, value_at, value_size)
        at = _put_varint(out, at, header_count)
        for header in range(first, first + header_count):
            begin, size = _place(header_key_ends, header_keys, header_value_there[:0], header)
            at = _put_bytes(out, at, header_keys, begin, size)
            begin, size = _place(header_value_ends, header_values, header_value_there, header)
            at = _put_bytes(out, at, header_values, begin, size)
        state[MAX_MS] = max(state[MAX_MS], time_ms)
        count, position = count + 1, position + 1
    state[NEXT], state[BYTES], state[COUNT] = position, at, count
    return outcome


@njit(inline="always")
def _murmur2(data, at, size):
    hashed = np.int64(SEED ^ size)
    end = at + (size & ~3)
    while at < end:
        word = (word_at(data, at) * MULTIPLIER) & MASK
        word ^= word >> SHIFT
        hashed = ((hashed * MULTIPLIER) & MASK) ^ ((word * MULTIPLIER) & MASK)
        at += 4
    rest = size & 3
    if rest:
        word = np.int64(0)
        for place in range(rest):
            word |= byte_at(data, at + place) << (8 * place)
        hashed = ((hashed ^ word) * MULTIPLIER) & MASK
    hashed ^= hashed >> 13
    hashed = (hashed * MULTIPLIER) & MASK
    return hashed ^ (hashed >> 15)


@njit(cache=True, nogil=True, boundscheck=False)
def divide_rows(
    places, counts, order, topics, first_places, partition_counts, sticky, partitions,
    partitions_there, key_ends, keys, key_there,
):  # fmt: skip
    """Assign rows to partitions by Kafka's default partitioner, and group the rows by partition.

    A place is a partition of a topic: `first_places[topic] + partition`. `topics`: topic index of
    each row, empty if there is one topic; `sticky`: each topic's partition for rows without a key.
    Fills `places`, `order` and `counts`; returns a `Divided` and the row concerned.
    """
    rows = places.shape[0]
    counts[:] = 0
    for row in range(rows):
        topic = np.int64(topics[row]) if topics.shape[0] > 0 else np.int64(0)
        if topic < 0 or topic >= partition_counts.shape[0]:
            return BAD_TOPIC, row
        among = np.int64(partition_counts[topic])
        given = partitions.shape[0] > 0 and (
            partitions_there.shape[0] == 0 or partitions_there[row] != 0
        )
        if given:
            partition = np.int64(partitions[row])
            if partition < 0 or partition >= among:
                return BAD_PARTITION, row
        else:
            begin, size = _place(key_ends, keys, key_there, row)
            if size < -1:
                return BAD_KEY, row
            if size < 0:
                partition = np.int64(sticky[topic])
            else:
                partition = (_murmur2(keys, begin, size) & 0x7FFF_FFFF) % among
        place = first_places[topic] + partition
        places[row] = place
        counts[place] += 1
    following = np.zeros(counts.shape[0], np.int64)
    for place in range(1, counts.shape[0]):
        following[place] = following[place - 1] + counts[place - 1]
    for row in range(rows):
        place = places[row]
        order[following[place]] = row
        following[place] += 1
    return DIVIDED, rows
