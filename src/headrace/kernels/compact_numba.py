"""Kernels for the records of a compaction, twin of `log.compaction.records.PlainRecords`.

Compiled without bounds checks, so the kernels check bounds themselves: they read nothing beyond the
records' end, and their output fits, as `filter_records` never enlarges a record and
`rebase_records` gets enough space.

A batch is processed in three passes: parse and hash the keys; read each needed map slot once, so
that cache misses overlap; decide.

The map is an array of three 64-bit words per slot, with linear probing:

    | hash, high | hash, low | offset + 1 (0: free) |

The hash has 128 bits (SipHash-1-3). Its key is random for each compaction, so that no producer can
construct colliding keys.
"""

# ruff: noqa: ANN001, ANN201, ANN202
# mypy: ignore-errors
# Types here are numba's, inferred from the arrays handed in; Python annotations would say nothing.

import numpy as np
from numba import njit

from headrace.kernels.decode_numba import read_varint, read_varlong
from headrace.kernels.memory import copy

DONE, FULL = 0, 1
BAD_LENGTH, BAD_NUMBER, BAD_OFFSET, BAD_KEY, BAD_VALUE, BAD_END = -1, -2, -3, -4, -5, -6

USED, KEYS_MAX, NOTED, KEPT, SIZE, NEWEST, TOMBSTONES, KEYLESS, SEEN = range(9)
"""Indices in `state`: how full the map is, then the results of a call."""

STAYS, TOMBSTONE, GOES = 0, 1, 2

U = np.uint64


@njit
def _varint(src, at, end):
    """Call `read_varint` without inlining it at each use, which saves compile time."""
    return read_varint(src, at, end)


@njit
def _varlong(src, at, end):
    """Decode a zig-zag varint by `read_varlong`, compiled once instead of inlined at each use."""
    return read_varlong(src, at, end)


@njit
def _rotated(word, bits):
    return (word << U(bits)) | (word >> U(64 - bits))


@njit
def _round(v0, v1, v2, v3):
    v0 += v1
    v1 = _rotated(v1, 13) ^ v0
    v0 = _rotated(v0, 32)
    v2 += v3
    v3 = _rotated(v3, 16) ^ v2
    v0 += v3
    v3 = _rotated(v3, 21) ^ v0
    v2 += v1
    v1 = _rotated(v1, 17) ^ v2
    v2 = _rotated(v2, 32)
    return v0, v1, v2, v3


@njit
def _partial_word(src, at, size):
    word = U(0)
    for place in range(size):
        word |= U(src[at + place]) << U(8 * place)
    return word


@njit
def _siphash(src, at, size, seed):
    """Return the 128-bit SipHash-1-3 of the `size` bytes at `at`."""
    v0 = seed[0] ^ U(0x736F6D6570736575)
    v1 = seed[1] ^ U(0x646F72616E646F6D) ^ U(0xEE)
    v2 = seed[0] ^ U(0x6C7967656E657261)
    v3 = seed[1] ^ U(0x7465646279746573)
    whole = at + (size & ~7)
    while at < whole:
        word = (
            U(src[at]) | U(src[at + 1]) << U(8) | U(src[at + 2]) << U(16) | U(src[at + 3]) << U(24)
            | U(src[at + 4]) << U(32) | U(src[at + 5]) << U(40) | U(src[at + 6]) << U(48)
            | U(src[at + 7]) << U(56)
        )  # fmt: skip
        v3 ^= word
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0 ^= word
        at += 8
    word = _partial_word(src, at, size & 7) | U(size & 0xFF) << U(56)
    v3 ^= word
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0 ^= word
    v2 ^= U(0xEE)
    for _ in range(3):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    high = v0 ^ v1 ^ v2 ^ v3
    v1 ^= U(0xDD)
    for _ in range(3):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return high, v0 ^ v1 ^ v2 ^ v3


@njit
def _find_slot(table, at, high, low):
    """Return the slot of a key in `table`, or the free slot for it, probing from `at`."""
    while table[at + 2] != U(0) and (table[at] != high or table[at + 1] != low):
        at += 3
        if at == len(table):
            at = 0
    return at


@njit
def _parse_record(src, at, end, previous, last_delta):
    """Return (outcome, end, time delta, offset delta, key at, key size, value size) of a record.

    The outcome is DONE or an error.
    """
    zero = np.int64(0)
    size, at = _varint(src, at, end)
    if at < 0:
        return BAD_NUMBER, zero, zero, zero, zero, zero, zero
    if size < 1 or size > end - at:
        return BAD_LENGTH, zero, zero, zero, zero, zero, zero
    after = at + size
    time_delta, at = _varlong(src, at + 1, after)
    if at < 0:
        return BAD_NUMBER, zero, zero, zero, zero, zero, zero
    delta, at = _varint(src, at, after)
    if at < 0:
        return BAD_NUMBER, zero, zero, zero, zero, zero, zero
    if delta <= previous or delta > last_delta:
        return BAD_OFFSET, zero, zero, zero, zero, zero, zero
    key_size, key_at = _varint(src, at, after)
    if key_at < 0:
        return BAD_NUMBER, zero, zero, zero, zero, zero, zero
    if key_size > after - key_at:
        return BAD_KEY, zero, zero, zero, zero, zero, zero
    value_size, at = _varint(src, key_at + max(key_size, zero), after)
    if at < 0:
        return BAD_NUMBER, zero, zero, zero, zero, zero, zero
    if value_size > after - at:
        return BAD_VALUE, zero, zero, zero, zero, zero, zero
    return DONE, after, time_delta, delta, key_at, key_size, value_size


@njit
def _touch_slots(table, slots, count):
    """Read the slots independently of each other, so that they are in the CPU cache afterwards."""
    seen = U(0)
    for number in range(count):
        if slots[number] >= 0:
            seen += table[slots[number] + 2]
    return seen


@njit(cache=True, nogil=True)
def index_records(src, count, base, last_delta, start, seed, table, state, hashes, work):
    """Implement `Records.index`; return DONE, FULL or an error. `state`: USED, KEYS_MAX, NOTED.

    `table` has a free slot for each record; `hashes` and `work` have two and five words per record.
    """
    end = np.int64(len(src))
    at = np.int64(0)
    previous = np.int64(-1)
    slots, offsets = work[:count], work[count : 2 * count]
    found = 0
    every = U(len(table) // 3)
    for _ in range(count):
        outcome, at, _, delta, key_at, key_size, _ = _parse_record(
            src, at, end, previous, last_delta
        )
        if outcome != DONE:
            return outcome
        previous = delta
        if base + delta < start:
            continue
        offsets[found] = base + delta
        slots[found] = -1
        if key_size >= 0:
            high, low = _siphash(src, key_at, key_size, seed)
            hashes[2 * found], hashes[2 * found + 1] = high, low
            slots[found] = np.int64(high % every) * 3
        found += 1
    if at != end:
        return BAD_END
    state[NOTED] = -1
    state[SEEN] = np.int64(_touch_slots(table, slots, found))
    for record in range(found):
        if slots[record] >= 0:
            if state[USED] >= state[KEYS_MAX]:
                return FULL
            high, low = hashes[2 * record], hashes[2 * record + 1]
            slot = _find_slot(table, slots[record], high, low)
            if table[slot + 2] == U(0):
                table[slot] = high
                table[slot + 1] = low
                state[USED] += 1
            table[slot + 2] = U(offsets[record] + 1)
        state[NOTED] = offsets[record]
    return DONE


@njit(cache=True, nogil=True)
def grow_table(table, larger):
    """Insert all entries of `table` into the empty `larger`."""
    every = U(len(larger) // 3)
    for at in range(0, len(table), 3):
        if table[at + 2] != U(0):
            slot = _find_slot(larger, np.int64(table[at] % every) * 3, table[at], table[at + 1])
            larger[slot] = table[at]
            larger[slot + 1] = table[at + 1]
            larger[slot + 2] = table[at + 2]


@njit(cache=True, nogil=True)
def filter_records(
    src, count, base, last_delta, latest, keep_tombstones, seed, table, out, state, hashes, work
):  # fmt: skip
    """Implement `Records.filter`; return DONE or an error.

    Remaining records are in `out`, which is as large as `src`; `state` holds their size and counts.
    """
    end = np.int64(len(src))
    at = np.int64(0)
    previous = np.int64(-1)
    slots, offsets, ends = work[:count], work[count : 2 * count], work[2 * count : 3 * count]
    times, gone = work[3 * count : 4 * count], work[4 * count : 5 * count]
    keyless = np.int64(0)
    every = U(len(table) // 3)
    for record in range(count):
        outcome, at, time_delta, delta, key_at, key_size, value_size = _parse_record(
            src, at, end, previous, last_delta
        )
        if outcome != DONE:
            return outcome
        previous = delta
        offsets[record] = base + delta
        ends[record] = at
        times[record] = time_delta
        slots[record] = -1
        gone[record] = STAYS if value_size >= 0 else TOMBSTONE
        if base + delta <= latest:
            if key_size < 0:
                keyless += 1
                gone[record] = GOES
            elif value_size < 0 and not keep_tombstones:
                gone[record] = GOES
            else:
                high, low = _siphash(src, key_at, key_size, seed)
                hashes[2 * record], hashes[2 * record + 1] = high, low
                slots[record] = np.int64(high % every) * 3
    if at != end:
        return BAD_END
    state[SEEN] = np.int64(_touch_slots(table, slots, count))
    kept, newest, size, tombstones = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    run, begin = np.int64(-1), np.int64(0)
    for record in range(count):
        stays = gone[record] != GOES
        if slots[record] >= 0:
            slot = _find_slot(table, slots[record], hashes[2 * record], hashes[2 * record + 1])
            stays = U(offsets[record] + 1) >= table[slot + 2]
        if stays:
            if run < 0:
                run = begin
            newest = times[record] if kept == 0 else max(newest, times[record])
            kept += 1
            if gone[record] == TOMBSTONE:
                tombstones = 1
        elif run >= 0:
            copy(out, size, src, run, begin - run)
            size += begin - run
            run = np.int64(-1)
        begin = ends[record]
    if run >= 0:
        copy(out, size, src, run, end - run)
        size += end - run
    state[KEPT], state[SIZE], state[NEWEST] = kept, size, newest
    state[TOMBSTONES], state[KEYLESS] = tombstones, keyless
    return DONE


@njit
def _write_varint(out, at, number):
    raw = (U(number) << U(1)) ^ U(number >> 63)
    while raw > U(0x7F):
        out[at] = np.uint8(raw & U(0x7F) | U(0x80))
        raw >>= U(7)
        at += 1
    out[at] = np.uint8(raw)
    return at + 1


@njit
def _varint_size(number):
    raw = (U(number) << U(1)) ^ U(number >> 63)
    size = 1
    while raw > U(0x7F):
        raw >>= U(7)
        size += 1
    return size


@njit(cache=True, nogil=True)
def rebase_records(src, count, shift, out):
    """Implement `Records.rebase` for valid records; return the bytes written to `out`.

    `out` has 16 bytes per record more than `src`.
    """
    end = np.int64(len(src))
    at = np.int64(0)
    size = np.int64(0)
    for _ in range(count):
        length, at = _varint(src, at, end)
        after = at + length
        delta, rest = _varlong(src, at + 1, after)
        moved = delta + shift
        size = _write_varint(out, size, np.int64(1 + _varint_size(moved) + after - rest))
        out[size] = src[at]
        size = _write_varint(out, size + 1, moved)
        copy(out, size, src, rest, after - rest)
        size += after - rest
        at = after
    return size
