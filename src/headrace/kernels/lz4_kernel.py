"""LZ4 block decompression as a numba kernel, inlined into the loop over batches.

    block = sequence, sequence, ...; the last one ends after its literals
    sequence = token | more length bytes | literals | distance (2 bytes) | more length bytes
    token = literal count (4 bits), match length - 4 (4 bits); 15 means: more bytes follow

Most sequences have few literals and a match of a few dozen bytes. A loop without data-dependent
branches handles these: it copies more bytes than needed, where there is room, and advances by the
real sizes. The next sequence's position is known only after the current token was loaded, so the
CPU mostly waits; hence two blocks are decompressed interleaved. All other sequences take a careful
path, one by one. Property tests compare the results with liblz4.

Internally all positions are addresses: of the input (`at`, `end`) and of the output (`to`, its end
`room`, and `low`, the first byte that a match may refer to).
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

MORE = 15  # In a token: the length continues in the following bytes.
LITERALS_SHORT, MATCH_SHORT = 14, 64
MATCH_LEAST = 4
LITERALS_LAST = 5
# Input that a short sequence may touch: token, literals, distance, one more length byte, one byte
# read in vain, and the literals that end every block.
SOURCE_ROOM = 1 + LITERALS_SHORT + 2 + 1 + 1 + LITERALS_LAST
TARGET_ROOM = LITERALS_SHORT + 2 + MATCH_SHORT
# Powers of two above the input and output sizes of a short sequence.
SOURCE_SHIFT, TARGET_SHIFT = 5, 7

_TOO_LONG = 0xFF


def _tables():
    """Return two tables by token: the match length it encodes, and the mask of one more length
    byte.

    Tokens with too many literals have a length that fails the check for short sequences.
    """
    tokens = np.arange(256)
    lengths = np.where(tokens >> 4 != MORE, (tokens & MORE) + MATCH_LEAST, _TOO_LONG)
    return np.concatenate([lengths, np.where(tokens & MORE == MORE, 0xFF, 0)]).astype(np.int64)


_TABLES = _tables()
_ENTRY_BYTES, _SECOND_TABLE = 8, 256 * 8


@njit(inline="always")
def _short_sequence(at, to, low, tables):
    """Decompress the sequence at `at` to `to` if it is short.

    Return (whether it was, address after it in the source, address after it in the target).

    SOURCE_ROOM and TARGET_ROOM must be available; the match must begin at `low` or later.
    """
    token = load_8(at)
    literals, entry = token >> 4, tables + _ENTRY_BYTES * token
    more = load_8(at + literals + 3) & load_64(entry + _SECOND_TABLE)
    length = load_64(entry) + more
    distance = load_16(at + literals + 1)
    into = to + literals
    back = into - distance
    # An overlapping match needs several copies, and a distance of 0 is invalid.
    if length > MATCH_SHORT or distance < length or back < low:
        return False, at, to
    move_16(to, at + 1)
    # Nearly all matches fit one stride; superfluous stores delay the next read of that memory.
    move_32(into, back)
    if length > STRIDE:
        move_32(into + STRIDE, back + STRIDE)
    # Skip the literals, and one byte more if the low half is full: then adding 1 carries.
    return True, at + ((token + 1) >> 4) + 3, into + length


@njit(inline="always")
def _long_length(at, limit, length):
    """Return a length that continues at `at`, and the address after it (at most `limit`), or -1."""
    while at < limit:
        byte = load_8(at)
        at += 1
        length += byte
        if byte != 255:
            return length, at
    return length, np.int64(-1)


@njit(boundscheck=False, _nrt=False)
def _any_sequence(at, end, to, low, room):
    """Decompress the sequence at `at`, of any kind: (at, to) after it.

    `at` == `end`: the block has ended; -1: the sequence is invalid or does not fit below `room`.
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
    # The match may overlap its own output: copy at most as much as exists already.
    while length > 0:
        size = min(to - start, length)
        move(to, start, size)
        to += size
        length -= size
    return at, to


@njit(boundscheck=False, _nrt=False)
def _rest_of_block(at, end, to, low, room):
    """Decompress the rest of a block: return the output address after it, -1 if it is invalid."""
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

    Returns the position after it in `out`, and may write beyond that; -1 if the block is invalid or
    does not fit. The caller must keep the bounds within the arrays.
    """
    source, target = address_of(src), address_of(out)
    done = _rest_of_block(source + at, source + end, target + to, target + low, target + room)
    return done - target if done >= 0 else done


@njit(cache=True, nogil=True, boundscheck=False, _nrt=False)
def decompress_two_blocks(src, at, end, also_at, also_end, out, half):
    """Decompress two blocks, src[at:end] to out[0:half] and src[also_at:also_end] to out[half:].

    Returns the positions after both in `out`, each as in `decompress_block`.
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
