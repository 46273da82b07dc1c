"""The records of a compaction in numba: the twin of `log.compaction.records.PlainRecords`.

Compiled without bounds checks, so it makes its own: nothing beyond the records' end is read, and
what is written fits, for no record grows in `filter_records`, and `rebase_records` is given room.

A batch is walked three times: parsed and hashed, then every slot of the map that is needed is read
once, so that waiting for memory overlaps, then decided.

The map is one array of three 64-bit numbers a slot: a hash of 128 bits (SipHash-1-3 under a key
drawn for this one compaction, so nobody can make two keys collide) and the offset plus one.
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
"""Places in `state`: how full the map is, then what a call found."""

STAYS, TOMBSTONE, GOES = 0, 1, 2

U = np.uint64


@njit
def _varint(src, at, end):
    """Call `read_varint`, compiled once: it is inlined where it is called; compiling takes long."""
    return read_varint(src, at, end)


@njit
def _varlong(src, at, end):
    """Call `read_varlong`, compiled once."""
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
    """Compute 128 bits of the `size` bytes at `at`: SipHash-1-3 with its long output."""
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
    """Return where in `table` the key is, or would be, its slot being `at`."""
    while table[at + 2] != U(0) and (table[at] != high or table[at + 1] != low):
        at += 3
        if at == len(table):
            at = 0
    return at


@njit
def _parse_record(src, at, end, previous, last_delta):
    """Return (outcome, end, time delta, offset delta, key at, key size, value size) of a record.

    The outcome is DONE, or what is wrong with it.
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
    """Read the slots, each without waiting for the one before: then they are in the cache."""
    seen = U(0)
    for number in range(count):
        if slots[number] >= 0:
            seen += table[slots[number] + 2]
    return seen


@njit(cache=True, nogil=True)
def index_records(src, count, base, last_delta, start, seed, table, state, hashes, work):
    """Do `Records.index`; DONE, FULL, or what is wrong. `state`: USED, KEYS_MAX, NOTED.

    `table` has room for all of them; `hashes` and `work` for two and five numbers a record.
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
    """Put all that is in `table` into `larger`, which is empty."""
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
    """Do `Records.filter`; DONE, or what is wrong.

    What stays is in `out`, which has room for all of `src`; how much that is, in `state`.
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
    """Do `Records.rebase` of sound records; returns the size of what is in `out` then.

    `out` has room for 16 bytes a record more than `src` holds.
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
