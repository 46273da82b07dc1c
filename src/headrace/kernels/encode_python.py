"""Twin of `encode_numba` in plain Python: same arguments, same results."""

from typing import Any

import numpy as np

from headrace.kernels.encode_layout import Divided, Encoded, EncodeSlot
from headrace.record.key_partition import partition_of

Array = np.ndarray[Any, Any]


def _varint(number: int) -> bytes:
    left = (number << 1) ^ (number >> 63)
    out = bytearray()
    while left >= 0x80:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


def _value(ends: Array, data: Array, there: Array, row: int) -> bytes | None:
    """Return a row's bytes, None for null. ValueError if the offsets exceed the data."""
    if not len(ends) or (len(there) and not there[row]):
        return None
    begin, end = int(ends[row]), int(ends[row + 1])
    if not 0 <= begin <= end <= len(data):
        raise ValueError
    return data[begin:end].tobytes()


def _sized(value: bytes | None) -> bytes:
    return _varint(-1) if value is None else _varint(len(value)) + value


def _headers(
    row: int, list_ends: Array, list_there: Array, key_ends: Array, keys: Array,
    value_ends: Array, values: Array, value_there: Array,
) -> bytes:  # fmt: skip
    if not len(list_ends) or (len(list_there) and not list_there[row]):
        return _varint(0)
    first, end = int(list_ends[row]), int(list_ends[row + 1])
    if not 0 <= first <= end <= len(key_ends) - 1:
        raise ValueError
    out = _varint(end - first)
    for at in range(first, end):
        out += _sized(_value(key_ends, keys, value_there[:0], at))
        out += _sized(_value(value_ends, values, value_there, at))
    return out


def encode_records(
    state: Array, order: Array, until: int, out: Array, limit: int, times_ms: Array,
    key_ends: Array, keys: Array, key_there: Array, value_ends: Array, values: Array,
    value_there: Array, *headers: Array,
) -> int:  # fmt: skip
    """Write records as `encode_numba.encode_records` does."""
    at, count, position = 0, 0, int(state[EncodeSlot.NEXT])
    outcome = Encoded.DONE
    state[EncodeSlot.NEEDED] = 0
    while position < until:
        row = int(order[position])
        if not 0 <= row < len(times_ms):
            return int(Encoded.BAD)
        time_ms = int(times_ms[row])
        if count == 0:
            state[EncodeSlot.BASE_MS] = state[EncodeSlot.MAX_MS] = time_ms
        try:
            body = b"\0" + _varint(time_ms - int(state[EncodeSlot.BASE_MS])) + _varint(count)
            body += _sized(_value(key_ends, keys, key_there, row))
            body += _sized(_value(value_ends, values, value_there, row))
            body += _headers(row, *headers)
        except ValueError:
            return int(Encoded.BAD)
        whole = _varint(len(body)) + body
        if (count > 0 and at + len(whole) > limit) or at + len(whole) > len(out):
            state[EncodeSlot.NEEDED] = len(whole)
            outcome = Encoded.FULL if count else Encoded.TOO_LARGE
            break
        out[at : at + len(whole)] = np.frombuffer(whole, np.uint8)
        at, count, position = at + len(whole), count + 1, position + 1
        state[EncodeSlot.MAX_MS] = max(int(state[EncodeSlot.MAX_MS]), time_ms)
    state[EncodeSlot.NEXT], state[EncodeSlot.BYTES] = position, at
    state[EncodeSlot.COUNT] = count
    return int(outcome)


def divide_rows(
    places: Array, counts: Array, order: Array, topics: Array, first_places: Array,
    partition_counts: Array, sticky: Array, partitions: Array, partitions_there: Array,
    key_ends: Array, keys: Array, key_there: Array,
) -> tuple[int, int]:  # fmt: skip
    """Assign rows to partitions as `encode_numba.divide_rows` does."""
    counts[:] = 0
    for row in range(len(places)):
        topic = int(topics[row]) if len(topics) else 0
        if not 0 <= topic < len(partition_counts):
            return int(Divided.BAD_TOPIC), row
        among = int(partition_counts[topic])
        if len(partitions) and (not len(partitions_there) or partitions_there[row]):
            partition = int(partitions[row])
            if not 0 <= partition < among:
                return int(Divided.BAD_PARTITION), row
        else:
            try:
                key = _value(key_ends, keys, key_there, row)
            except ValueError:
                return int(Divided.BAD_KEY), row
            partition = int(sticky[topic]) if key is None else partition_of(key, among)
        places[row] = int(first_places[topic]) + partition
        counts[places[row]] += 1
    order[:] = np.argsort(places, kind="stable")
    return int(Divided.DONE), len(places)
