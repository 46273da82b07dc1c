"""Blocks of lz4, compiled into the walk over batches: no call, no object, no copy of what is read.

Most sequences of a batch are a few literals and a match of a few dozen bytes. Those go through a
loop that does not branch on what it reads: it copies more than is needed, where there is room, and
moves on by what was. Where the next sequence begins is known only once this one's first byte is
there, so a processor waits more than it works: hence two blocks at a time, side by side. All other
sequences take the careful way, one by one. Held equal to liblz4 by property tests.

Within, everything is an address: of what is read (`at`, `end`) and of what is written (`to`, `room`
where it ends, `low` where what a match may refer to begins).
"""

# ruff: noqa: ANN001, ANN201, ANN202
# mypy: ignore-errors
# Types here are numba's, inferred from the arrays handed in; Python annotations would say nothing.

import numpy as np
from numba import njit

from headrace.kernels.memory import (
    STRIDE,
    address_of,
    load_8,
    load_16,
    load_64,
    move,
    move_16,
    move_32,
)

MORE = 15  # in a token: the length goes on in the bytes that follow
LITERALS_SHORT, MATCH_SHORT = 14, 64
MATCH_LEAST = 4
LITERALS_LAST = 5
# Token, literals, distance, one byte more of length, a byte read in vain; and what a block has
# after its last match.
SOURCE_ROOM = 1 + LITERALS_SHORT + 2 + 1 + 1 + LITERALS_LAST
TARGET_ROOM = LITERALS_SHORT + 2 + MATCH_SHORT
# Powers of two above what a short sequence takes of the source and puts in the target.
SOURCE_SHIFT, TARGET_SHIFT = 5, 7

_TOO_LONG = 0xFF


def _tables():
    """Return by token: its match's length as far as it knows it; what counts of one byte more.

    Of too many literals the length is one too long.
    """
    tokens = np.arange(256)
    lengths = np.where(tokens >> 4 != MORE, (tokens & MORE) + MATCH_LEAST, _TOO_LONG)
    return np.concatenate([lengths, np.where(tokens & MORE == MORE, 0xFF, 0)]).astype(np.int64)


_TABLES = _tables()
_ENTRY_BYTES, _SECOND_TABLE = 8, 256 * 8


@njit(inline="always")
def _short_sequence(at, to, low, tables):
    """Decompress the sequence at `at` if it is a short one: (whether it is, at and to after it).

    There is SOURCE_ROOM and TARGET_ROOM; its match begins at `low` or later.
    """
    token = load_8(at)
    literals, entry = token >> 4, tables + _ENTRY_BYTES * token
    more = load_8(at + literals + 3) & load_64(entry + _SECOND_TABLE)
    length = load_64(entry) + more
    distance = load_16(at + literals + 1)
    into = to + literals
    back = into - distance
    # A match that reaches into itself is no single copy; nor is one at no distance sound.
    if length > MATCH_SHORT or distance < length or back < low:
        return False, at, to
    move_16(to, at + 1)
    # Nearly all are no longer than that, and what is stored in vain delays who reads it next.
    move_32(into, back)
    if length > STRIDE:
        move_32(into + STRIDE, back + STRIDE)
    # Past the literals, and one byte more where the lower half is full: then it carries.
    return True, at + ((token + 1) >> 4) + 3, into + length


@njit(inline="always")
def _long_length(at, limit, length):
    """Return a length that goes on at `at`, and the address after it: at most `limit`, or -1."""
    while at < limit:
        byte = load_8(at)
        at += 1
        length += byte
        if byte != 255:
            return length, at
    return length, np.int64(-1)


@njit(boundscheck=False, _nrt=False)
def _any_sequence(at, end, to, low, room):
    """Decompress the sequence at `at`, of whatever kind: (at, to) after it.

    At `end` the block ends; -1 is no sound sequence, or one that does not fit below `room`.
    """
    wrong = np.int64(-1), to
    if at >= end:
        return wrong
    token = load_8(at)
    literals, at = token >> 4, at + 1
    if literals == MORE:
        literals, at = _long_length(at, end, literals)
    if at < 0 or literals > end - at or literals > room - to:
        return wrong
    move(to, at, literals)
    at, to = at + literals, to + literals
    if at == end:
        return at, to
    if end - at < 2 + 1 + LITERALS_LAST:
        return wrong
    distance, at = load_16(at), at + 2
    length = token & MORE
    if length == MORE:
        length, at = _long_length(at, end - LITERALS_LAST + 1, length)
    length += MATCH_LEAST
    start = to - distance
    if at < 0 or distance == 0 or start < low or length > room - to:
        return wrong
    # What is copied may end within itself: no more at a time than is there.
    while length > 0:
        size = min(to - start, length)
        move(to, start, size)
        to += size
        length -= size
    return at, to


@njit(boundscheck=False, _nrt=False)
def _rest_of_block(at, end, to, low, room):
    """Decompress a block, or the rest of one: the address after it, -1 where it is unsound."""
    fast_at, fast_to = end - SOURCE_ROOM, room - TARGET_ROOM
    tables = address_of(_TABLES)
    while True:
        while at <= fast_at and to <= fast_to:
            short, at, to = _short_sequence(at, to, low, tables)
            if not short:
                break
        at, to = _any_sequence(at, end, to, low, room)
        if at < 0:
            return np.int64(-1)
        if at == end:
            return to


@njit(cache=True, nogil=True, boundscheck=False, _nrt=False)
def decompress_block(src, at, end, out, to, low, room):
    """Decompress the block src[at:end] to out[to:room]; its matches may begin in out[low:to].

    Returns the position after it in `out`, behind which anything may have been written; -1 where
    it is no sound block, or has no room. The bounds are the caller's to keep within the arrays.
    """
    source, target = address_of(src), address_of(out)
    done = _rest_of_block(source + at, source + end, target + to, target + low, target + room)
    return done - target if done >= 0 else done


@njit(cache=True, nogil=True, boundscheck=False, _nrt=False)
def decompress_two_blocks(src, at, end, also_at, also_end, out, half):
    """Decompress two blocks, src[at:end] to out[0:half] and src[also_at:also_end] to out[half:].

    Returns the positions after them in `out`, each as `decompress_block`.
    """
    source, target = address_of(src), address_of(out)
    at, end, also_at, also_end = source + at, source + end, source + also_at, source + also_end
    to, room, tables = target, target + half, address_of(_TABLES)
    also_to, also_room = room, target + out.shape[0]
    fast_at, fast_to = end - SOURCE_ROOM, room - TARGET_ROOM
    also_fast_at, also_fast_to = also_end - SOURCE_ROOM, also_room - TARGET_ROOM
    while True:
        read = min(fast_at - at, also_fast_at - also_at)
        written = min(fast_to - to, also_fast_to - also_to)
        if read >= 0 and written >= 0:
            many = min(read >> SOURCE_SHIFT, written >> TARGET_SHIFT) + 1
            while many > 0:
                short, at, to = _short_sequence(at, to, target, tables)
                if not short:
                    break
                short, also_at, also_to = _short_sequence(also_at, also_to, room, tables)
                if not short:
                    break
                many -= 1
            if many == 0:
                continue
        at, to = _any_sequence(at, end, to, target, room)
        also_at, also_to = _any_sequence(also_at, also_end, also_to, room, also_room)
        if at < 0 or at == end or also_at < 0 or also_at == also_end:
            break
    if at < 0:
        to = np.int64(-1)
    elif at < end:
        to = _rest_of_block(at, end, to, target, room)
    if also_at < 0:
        also_to = np.int64(-1)
    elif also_at < also_end:
        also_to = _rest_of_block(also_at, also_end, also_to, room, also_room)
    return to - target if to >= 0 else to, also_to - target if also_to >= 0 else also_to
