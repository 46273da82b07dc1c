"""Blocks of lz4, compiled into the walk over batches: no call, no object, no copy of what is read.

Most sequences of a batch are a few literals and a match of a few dozen bytes. Those go through a
loop that does not branch on what it reads: it copies more than is needed, where there is room, and
moves on by what was. Where the next sequence begins is known only once this one's first byte is
there, so a processor waits more than it works: hence two blocks at a time, side by side. All other
sequences take the careful way, one by one. Held equal to liblz4 by property tests.
"""

# ruff: noqa: ANN001, ANN201, ANN202
# mypy: ignore-errors
# Types here are numba's, inferred from the arrays handed in; Python annotations would say nothing.

import numpy as np
from numba import njit

from headrace.arrow.raw import byte_at, copy, copy_16, copy_32, short_at

MORE = 15  # in a token: the length goes on in the bytes that follow
LITERALS_SHORT, MATCH_SHORT = 14, 64
MATCH_LEAST = 4
DISTANCE_NEAR = 32  # nearer, and a copy of 32 bytes would read what it writes
LITERALS_LAST = 5
# Token, literals, distance, one byte more of length, a byte read in vain; and what a block has
# after its last match.
SOURCE_ROOM = 1 + LITERALS_SHORT + 2 + 1 + 1 + LITERALS_LAST
TARGET_ROOM = LITERALS_SHORT + 2 + MATCH_SHORT
# Powers of two above what a short sequence takes of the source and puts in the target.
SOURCE_SHIFT, TARGET_SHIFT = 5, 7


@njit(inline="always")
def _quick(src, at, out, to, low):
    """Unfold the sequence at `at` if it is of the short kind: (whether it is, at and to after it).

    There is SOURCE_ROOM and TARGET_ROOM; its match begins at `low` or later.
    """
    token = byte_at(src, at)
    literals = token >> 4
    behind, into = at + 1 + literals, to + literals
    distance = short_at(src, behind)
    more = ((token & MORE) + 1) >> 4
    length = (token & MORE) + MATCH_LEAST + byte_at(src, behind + 2) * more
    back = into - distance
    if literals == MORE or distance < DISTANCE_NEAR or back < low or length > MATCH_SHORT:
        return False, at, to
    copy_16(out, to, src, at + 1)
    copy_32(out, into, out, back)
    copy_32(out, into + 32, out, back + 32)
    return True, behind + 2 + more, into + length


@njit(inline="always")
def _longer(src, at, limit, length):
    """A length that goes on at `at`, and the position after it: at most `limit`, or -1."""
    while at < limit:
        byte = byte_at(src, at)
        at += 1
        length += byte
        if byte != 255:
            return length, at
    return length, np.int64(-1)


@njit(boundscheck=False, _nrt=False)
def _careful(src, at, end, out, to, low, room):
    """Unfold the sequence at `at`, of whatever kind: (at, to) after it.

    At `end` the block ends; -1 is no sound sequence, or one that does not fit below `room`.
    """
    wrong = np.int64(-1), to
    if at >= end:
        return wrong
    token = byte_at(src, at)
    literals, at = token >> 4, at + 1
    if literals == MORE:
        literals, at = _longer(src, at, end, literals)
    if at < 0 or literals > end - at or literals > room - to:
        return wrong
    copy(out, to, src, at, literals)
    at, to = at + literals, to + literals
    if at == end:
        return at, to
    if end - at < 2 + 1 + LITERALS_LAST:
        return wrong
    distance, at = short_at(src, at), at + 2
    length = token & MORE
    if length == MORE:
        length, at = _longer(src, at, end - LITERALS_LAST + 1, length)
    length += MATCH_LEAST
    start = to - distance
    if at < 0 or distance == 0 or start < low or length > room - to:
        return wrong
    # What is copied may end within itself: no more at a time than is there.
    while length > 0:
        size = min(to - start, length)
        copy(out, to, out, start, size)
        to += size
        length -= size
    return at, to


@njit(cache=True, nogil=True, boundscheck=False, _nrt=False)
def unfold_block(src, at, end, out, to, low, room):
    """Unfold the block src[at:end] to out[to:room]; its matches may begin in out[low:to].

    Returns the position after it in `out`, behind which anything may have been written; -1 where
    it is no sound block, or has no room. The bounds are the caller's to keep within the arrays.
    """
    fast_at, fast_to = end - SOURCE_ROOM, room - TARGET_ROOM
    while True:
        while at <= fast_at and to <= fast_to:
            short, next_at, next_to = _quick(src, at, out, to, low)
            if not short:
                break
            at, to = next_at, next_to
        at, to = _careful(src, at, end, out, to, low, room)
        if at < 0:
            return np.int64(-1)
        if at == end:
            return to


@njit(cache=True, nogil=True, boundscheck=False, _nrt=False)
def unfold_two(src, at, end, also_at, also_end, out, half):
    """Unfold two blocks, src[at:end] to out[0:half] and src[also_at:also_end] to out[half:].

    Returns the positions after them in `out`, each as `unfold_block`.
    """
    to, room = np.int64(0), half
    also_to, also_room = half, np.int64(out.shape[0])
    fast_at, fast_to = end - SOURCE_ROOM, room - TARGET_ROOM
    also_fast_at, also_fast_to = also_end - SOURCE_ROOM, also_room - TARGET_ROOM
    while True:
        source = min(fast_at - at, also_fast_at - also_at)
        target = min(fast_to - to, also_fast_to - also_to)
        if source >= 0 and target >= 0:
            many = min(source >> SOURCE_SHIFT, target >> TARGET_SHIFT) + 1
            while many > 0:
                short, next_at, next_to = _quick(src, at, out, to, 0)
                if not short:
                    break
                short, also_next_at, also_next_to = _quick(src, also_at, out, also_to, half)
                if not short:
                    break
                at, to, also_at, also_to = next_at, next_to, also_next_at, also_next_to
                many -= 1
            if many == 0:
                continue
        at, to = _careful(src, at, end, out, to, 0, room)
        also_at, also_to = _careful(src, also_at, also_end, out, also_to, half, also_room)
        if at < 0 or at == end or also_at < 0 or also_at == also_end:
            break
    if at < 0:
        to = np.int64(-1)
    elif at < end:
        to = unfold_block(src, at, end, out, to, 0, room)
    if also_at < 0:
        also_to = np.int64(-1)
    elif also_at < also_end:
        also_to = unfold_block(src, also_at, also_end, out, also_to, half, also_room)
    return to, also_to
