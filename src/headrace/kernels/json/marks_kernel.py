"""The JSON kernel's bookkeeping: keys, equal keys, nulls, open objects, refused records."""

# ruff: noqa: ANN001, ANN201, ANN202
# mypy: ignore-errors
# Types here are numba's, inferred from the arrays handed in; Python annotations would say nothing.

import numpy as np

from headrace.kernels.json.layout import Col, Frame, Head
from headrace.kernels.json.memory_kernel import (
    compiled,
    inlined,
    load_8,
    load_64,
    store_8,
    store_64,
)
from headrace.kernels.json.skip_kernel import after_key
from headrace.kernels.json.unknown_kernel import note_unknown
from headrace.typed.refusal import Fault
from headrace.typed.types import Kind

TWICE, MISSING = int(Fault.TWICE), int(Fault.MISSING)
CHILD, CHILDREN, NULLABLE = int(Col.CHILD), int(Col.CHILDREN), int(Col.NULLABLE)
VALID, DATA, SHIFT, MARK = int(Col.VALID), int(Col.DATA), int(Col.SHIFT), int(Col.MARK)
NAME, NAME_SIZE, KIND, BYTES = int(Col.NAME), int(Col.NAME_SIZE), int(Col.KIND), int(Col.BYTES)
FILL, FILLS = int(Col.FILL), int(Col.FILLS)
AT, NODE_AT, SERIAL, SCRATCH = int(Head.AT), int(Head.NODE), int(Head.SERIAL), int(Head.SCRATCH)
MARKS, MARK_COUNT, SAVED = int(Head.MARKS), int(Head.MARK_COUNT), int(Head.SAVED)
STAMPS, FOLLOWERS, FILLS_AT = int(Head.STAMPS), int(Head.FOLLOWERS), int(Head.FILLS)
TABLE, TABLE_MASK, FIRST_SERIAL = int(Head.TABLE), int(Head.TABLE_MASK), int(Head.FIRST_SERIAL)
SEED, FIRSTS = int(Head.SEED), int(Head.FIRSTS)
F_NODE, F_SLOT, F_CLOSING = int(Frame.NODE), int(Frame.SLOT), int(Frame.CLOSING)
F_SERIAL, F_SEEN, F_GUESS, F_LAST = (
    int(Frame.SERIAL), int(Frame.SEEN), int(Frame.GUESS), int(Frame.LAST)
)  # fmt: skip
STRING, BINARY, ARRAY, MAP = int(Kind.STRING), int(Kind.BINARY), int(Kind.ARRAY), int(Kind.MAP)
STRUCT = int(Kind.STRUCT)
HASH_FACTOR = 0x9E3779B97F4A7C15 - (1 << 64)


@compiled
def save_marks(work):
    """Note how full the output is before a record."""
    marks, saved = work[MARKS], work[SAVED]
    for place in range(work[MARK_COUNT]):
        work[saved + place] = work[marks + place]
    work[FIRST_SERIAL] = work[SERIAL]


@compiled
def restore_marks(work):
    """Forget what a refused record has written."""
    marks, saved = work[MARKS], work[SAVED]
    for place in range(work[MARK_COUNT]):
        work[marks + place] = work[saved + place]


@compiled
def open_frame(work, program, frame, node, slot, closing):
    """Begin an object or array of `node` in `slot`."""
    work[frame + F_NODE], work[frame + F_SLOT] = node, slot
    work[frame + F_CLOSING], work[frame + F_SEEN] = closing, 0
    work[frame + F_SERIAL] = work[SERIAL]
    work[SERIAL] += 1
    work[frame + F_GUESS], work[frame + F_LAST] = work[work[FIRSTS] + node], -1


@compiled
def put_end(program, work, out, node, slot):
    """Store how far the elements or bytes of `node` reach after `slot`."""
    store_64(out, program[node, DATA] + 4 * slot + 4, work[work[MARKS] + program[node, MARK]])


@compiled
def put_null(program, work, out, node, slot):
    """Make `node` null in `slot`, with all nodes below it that share its slots."""
    fill, fills = work[FILLS_AT] + program[node, FILL], program[node, FILLS]
    for place in range(-1, fills):
        part = node if place < 0 else work[fill + place]
        store_8(out, program[part, VALID] + slot, 0)
        kind = program[part, KIND]
        if kind in (STRING, BINARY, ARRAY, MAP):
            put_end(program, work, out, part, slot)
        elif kind != STRUCT:
            width = np.int64(1) << program[part, SHIFT]
            for byte in range(width):
                store_8(out, program[part, DATA] + slot * width + byte, 0)


@compiled
def _equal(first, at, second, second_at, size):
    for place in range(size):
        if load_8(first, at + place) != load_8(second, second_at + place):
            return False
    return True


@inlined
def find_key(src, at, end, program, names, work, out, node):
    """Return the place of the value whose key is at `at`, or -fault, and the child of STRUCT `node`
    with that name; -1 if the schema has none."""
    scratch = work[SCRATCH]
    at, text_end = after_key(src, at, end, out, scratch)
    size = text_end - scratch
    if at >= 0:
        for child in range(program[node, CHILD], program[node, CHILD] + program[node, CHILDREN]):
            if program[child, NAME_SIZE] == size and _equal(
                names, program[child, NAME], out, scratch, size
            ):
                return at, np.int64(child)
        note_unknown(work, out, scratch, size, node)
    return at, np.int64(-1)


@compiled
def note_key(work, frame, node):
    """Note that the key of `node` was read; return 0, or -TWICE.

    A producer's order of keys seldom changes: after each key, the one that followed it in the
    object before is expected.
    """
    stamp = work[STAMPS] + node
    if work[stamp] == work[frame + F_SERIAL]:
        return np.int64(-TWICE)
    work[stamp] = work[frame + F_SERIAL]
    work[frame + F_SEEN] += 1
    if node != work[frame + F_GUESS]:
        last = work[frame + F_LAST]
        learned = work[FIRSTS] + work[frame + F_NODE] if last < 0 else work[FOLLOWERS] + last
        work[learned] = node
    work[frame + F_LAST] = node
    work[frame + F_GUESS] = work[work[FOLLOWERS] + node]
    return np.int64(0)


@compiled
def fill_missing(program, work, out, frame, at):
    """Make undelivered fields of a STRUCT null; return `at`, or -MISSING if one may not be."""
    node, slot = work[frame + F_NODE], work[frame + F_SLOT]
    for child in range(program[node, CHILD], program[node, CHILD] + program[node, CHILDREN]):
        if work[work[STAMPS] + child] != work[frame + F_SERIAL]:
            if not program[child, NULLABLE]:
                work[AT], work[NODE_AT] = at - 1, child
                return np.int64(-MISSING)
            put_null(program, work, out, child, slot)
    return at


@compiled
def _hash(out, at, size, seed):
    word = size ^ seed
    for place in range(0, size - 7, 8):
        word = (word ^ load_64(out, at + place)) * HASH_FACTOR
        word ^= word >> 29
    rest = size & 7
    if rest:
        last = load_64(out, at + size - rest) & ((np.int64(1) << (8 * rest)) - 1)
        word = (word ^ last) * HASH_FACTOR
    return word ^ word >> 32


@compiled
def is_new_map_key(program, work, out, node, slot, serial):
    """Return whether the key in `slot` of the key column `node` is the first of its name in the MAP
    with this serial number, and note it."""
    ends, data = program[node, DATA], program[node, BYTES]
    begin = load_64(out, ends + 4 * slot) & 0xFFFFFFFF
    size = work[work[MARKS] + program[node, MARK]] - begin
    mask = work[TABLE_MASK]
    entry = (_hash(out, data + begin, size, work[SEED]) ^ serial * HASH_FACTOR >> 8) & mask
    while True:
        place = work[TABLE] + 2 * entry
        stamp, other = work[place], work[place + 1]
        if stamp < work[FIRST_SERIAL]:
            work[place], work[place + 1] = serial, slot
            return True
        if stamp == serial:
            other_begin = load_64(out, ends + 4 * other) & 0xFFFFFFFF
            other_end = load_64(out, ends + 4 * other + 4) & 0xFFFFFFFF
            if other_end - other_begin == size and _equal(
                out, data + begin, out, data + other_begin, size
            ):
                return False
        entry = (entry + 1) & mask
