"""The kernel that decodes records of JSON to Arrow's buffers by a compiled schema.

One machine for all schemas: `program` says what a node is, and nested objects and arrays are frames
on a stack. A record is OPENED, then for each member there is a KEY and VALUE, and what comes AFTER
it: a comma, or the container's end.

                 first member          ,
    OPENED ----------------> MEMBER <----- AFTER
      |  ^                    |  |           ^ |  } or ]
      |  +--- { or [ ---------+  +- scalar --+ |
      +------------- } or ] ------> CLOSED <---+
                                      | AFTER of the container around it; of the record: done

A refused record leaves nothing behind: marks are restored. `headrace.typed.plain` is the twin.
"""

# ruff: noqa: ANN001, ANN202
# mypy: ignore-errors
# Types here are numba's, inferred from the arrays handed in; Python annotations would say nothing.

import zlib
from pathlib import Path

import numpy as np
from numba import njit

from headrace.kernels.json.layout import FRAME_WORDS, FRAMES_AT, SLOTS_FULL, Col, Frame, Head
from headrace.kernels.json.marks_kernel import (
    fill_missing,
    find_key,
    is_new_map_key,
    note_key,
    open_frame,
    put_end,
    put_null,
    restore_marks,
    save_marks,
)
from headrace.kernels.json.memory_kernel import compiled, load_8, load_64, store_8
from headrace.kernels.json.scalars_kernel import put_scalar, put_string
from headrace.kernels.json.skip_kernel import (
    COLON,
    COMMA,
    NULL,
    OBJECT,
    OBJECT_END,
    after_value,
    is_word,
)
from headrace.kernels.json.text_kernel import QUOTE, after_blanks
from headrace.typed import refusal
from headrace.typed import types as typed_types
from headrace.typed.refusal import Fault
from headrace.typed.types import Kind

SYNTAX, TYPE, TWICE = int(Fault.SYNTAX), int(Fault.TYPE), int(Fault.TWICE)
NULL_FAULT, EMPTY, NOT_OBJECT = int(Fault.NULL), int(Fault.EMPTY), int(Fault.NOT_OBJECT)
MARK_FAULT, TRAILING = int(Fault.BYTE_ORDER_MARK), int(Fault.TRAILING)
KIND, CHILD, CHILDREN = int(Col.KIND), int(Col.CHILD), int(Col.CHILDREN)
NULLABLE, SPACE, VALID = int(Col.NULLABLE), int(Col.SPACE), int(Col.VALID)
PATTERN, PATTERN_SIZE = int(Col.PATTERN), int(Col.PATTERN_SIZE)
AT, NODE_AT, MARKS = int(Head.AT), int(Head.NODE), int(Head.MARKS)
STOPPED, FULL, UNKNOWN = int(Head.STOPPED), int(Head.FULL), int(Head.UNKNOWN)
SLOTS = int(Col.SLOTS)
F_NODE, F_SLOT, F_CLOSING = int(Frame.NODE), int(Frame.SLOT), int(Frame.CLOSING)
F_SERIAL, F_SEEN, F_GUESS = int(Frame.SERIAL), int(Frame.SEEN), int(Frame.GUESS)
STRUCT, ARRAY, MAP, STRING = int(Kind.STRUCT), int(Kind.ARRAY), int(Kind.MAP), int(Kind.STRING)
OPENED, MEMBER, AFTER, CLOSED = 0, 1, 2, 3
BYTE_ORDER_MARK = int.from_bytes(b"\xef\xbb\xbf", "little")


@compiled
def _is_pattern(src, at, end, names, pattern, size):
    """Return whether the key's text, quotes and colon included, is at `at`."""
    if size == 0 or at + size > end:
        return False
    place = np.int64(0)
    while place + 8 <= size:
        if load_64(src, at + place) != load_64(names, pattern + place):
            return False
        place += 8
    rest = (np.int64(1) << (8 * (size - place))) - 1
    return (load_64(src, at + place) ^ load_64(names, pattern + place)) & rest == 0


@compiled
def _field(src, at, end, program, names, work, out, frame):
    """Return the place of the value of the key at `at`, or -fault, and its node; -1: unknown."""
    node = work[frame + F_GUESS]
    size = program[node, PATTERN_SIZE]
    begin = at
    if _is_pattern(src, at, end, names, program[node, PATTERN], size):
        at += size
    else:
        at, node = find_key(src, at, end, program, names, work, out, work[frame + F_NODE])
    if at >= 0 and node >= 0:
        fault = note_key(work, frame, node)
        if fault < 0:
            work[AT], work[NODE_AT] = begin, node
            at = fault
    return at, node


@compiled
def _map_key(src, at, end, program, work, out, frame):
    """Store the key at `at` of a MAP; return the place of its value, or -fault."""
    node = program[work[frame + F_NODE], CHILD]
    slot = work[work[MARKS] + program[node, SPACE]]
    work[AT], work[NODE_AT] = at, node
    if at >= end or load_8(src, at) != QUOTE:
        return np.int64(-SYNTAX)
    if slot >= program[node, SLOTS]:
        return np.int64(-SLOTS_FULL)
    at = put_string(src, at + 1, end, program, work, out, node, slot)
    if at < 0:
        return at
    if not is_new_map_key(program, work, out, node, slot, work[frame + F_SERIAL]):
        return np.int64(-TWICE)
    at = after_blanks(src, at, end)
    if at >= end or load_8(src, at) != COLON:
        work[AT] = at
        return np.int64(-SYNTAX)
    return at + 1


@compiled
def _open(src, at, program, work, out, frame, node, slot):
    """Open the object or array of `node` at `at`; return the place after its bracket, or -TYPE."""
    kind = program[node, KIND]
    byte = load_8(src, at)
    if byte != (0x5B if kind == ARRAY else OBJECT):
        return np.int64(-TYPE)
    if kind == STRUCT:
        store_8(out, program[node, VALID] + slot, 1)
    open_frame(work, program, frame + FRAME_WORDS, node, slot, byte + 2)
    return at + 1


@compiled
def _close(program, work, out, frame, at):
    """Complete the object or array that ended before `at`; return `at`, or -MISSING."""
    node = work[frame + F_NODE]
    if program[node, KIND] != STRUCT:
        put_end(program, work, out, node, work[frame + F_SLOT])
        store_8(out, program[node, VALID] + work[frame + F_SLOT], 1)
    elif work[frame + F_SEEN] < program[node, CHILDREN]:
        return fill_missing(program, work, out, frame, at)
    return at


@compiled
def _value(src, at, end, program, work, out, frame, node):
    """Read the value at `at` of `node`; return the place after it, or after the bracket that begins
    it, or -fault."""
    space = program[node, SPACE]
    slot = work[frame + F_SLOT]
    work[AT], work[NODE_AT] = at, node
    if program[work[frame + F_NODE], KIND] != STRUCT:
        slot = work[work[MARKS] + space]
        if slot >= program[node, SLOTS]:
            return np.int64(-SLOTS_FULL), False
        work[work[MARKS] + space] = slot + 1
    kind = program[node, KIND]
    byte = load_8(src, at)
    if byte == 0x6E and is_word(src, at, end, NULL):
        if not program[node, NULLABLE]:
            return np.int64(-NULL_FAULT), False
        put_null(program, work, out, node, slot)
        return at + len(NULL), False
    if kind == STRING:
        if byte != QUOTE:
            return np.int64(-TYPE), False
        return put_string(src, at + 1, end, program, work, out, node, slot), False
    if kind <= MAP:
        return _open(src, at, program, work, out, frame, node, slot), True
    return put_scalar(src, at, end, program, work, out, node, slot), False


@compiled
def _begin(src, at, end):
    """Return the place of the record's opening brace, or -fault and where it is found."""
    begin = at
    at = after_blanks(src, at, end)
    if at == end:
        return np.int64(-EMPTY), begin
    if load_8(src, at) != OBJECT:
        is_mark = begin + 3 <= end and load_64(src, begin) & 0xFFFFFF == BYTE_ORDER_MARK
        return np.int64(-MARK_FAULT) if is_mark else np.int64(-NOT_OBJECT), at
    return at, at


@compiled
def _record(src, at, end, program, names, work, out, row):
    """Read one record into slot `row`; return the place after it, or -fault."""
    at, work[AT] = _begin(src, at, end)
    if at < 0:
        return at
    frame, step = np.int64(FRAMES_AT), OPENED
    open_frame(work, program, frame, 0, row, OBJECT_END)
    at += 1
    while True:
        if step == OPENED:
            at = after_blanks(src, at, end)
            step = CLOSED if at < end and load_8(src, at) == work[frame + F_CLOSING] else MEMBER
            at += step == CLOSED
        elif step == AFTER:
            at = after_blanks(src, at, end)
            work[AT] = at
            byte = load_8(src, at) if at < end else np.int64(0)
            if byte == COMMA:
                at, step = after_blanks(src, at + 1, end), MEMBER
            elif byte == work[frame + F_CLOSING]:
                at, step = at + 1, CLOSED
            else:
                return np.int64(-SYNTAX)
        if step == CLOSED:
            at = _close(program, work, out, frame, at)
            if at < 0 or frame == FRAMES_AT:
                return at
            frame -= FRAME_WORDS
            step = AFTER
        if step == MEMBER:
            work[AT] = at
            node = program[work[frame + F_NODE], CHILD]
            if work[frame + F_CLOSING] == OBJECT_END:
                if program[work[frame + F_NODE], KIND] == STRUCT:
                    at, node = _field(src, at, end, program, names, work, out, frame)
                else:
                    at, node = _map_key(src, at, end, program, work, out, frame), node + 1
                if at < 0:
                    return at
                at = after_blanks(src, at, end)
            if at >= end:
                work[AT] = at
                return np.int64(-SYNTAX)
            step, opened = AFTER, False
            if node < 0:
                work[AT] = at
                depth = (frame - FRAMES_AT) // FRAME_WORDS + 1
                at = after_value(src, at, end, work, out, depth)
            else:
                at, opened = _value(src, at, end, program, work, out, frame, node)
            if at < 0:
                return at
            if opened:
                frame += FRAME_WORDS
                step = OPENED


def _kernel(sources):
    """Return the compiled entry.

    numba looks up cached code by the time of this file alone, but it contains code of others: after
    an edit of one of those, tests would run the code before. A number that a function closes over
    is part of the key, and it counts as used only if the function reads it.
    """

    @njit(cache=True, boundscheck=False, error_model="numpy", _nrt=False)
    def decode_rows(
        src, offsets, base, first, present, program, names, work, out, rows, refused, refusals
    ):
        """Decode the records between the places `offsets` - `base` of `src`; return how many are
        refused, with the `refusals` of earlier calls on this output.

        `first`: the number of the first record. `present`: which of these records have a value;
        empty if all do. `rows`: for each decoded row the number of its record. `refused`: for each
        refused record its number, fault, node and byte. `src` and each buffer in `out` have SLACK
        bytes more than their content. Stops before a record that the output has no memory for.
        """
        row = work[work[MARKS]]
        if sources < 0:
            return refusals
        for place in range(offsets.shape[0] - 1):
            if present.shape[0] > 0 and not present[place]:
                continue
            number = first + place
            begin, end = np.int64(offsets[place]) - base, np.int64(offsets[place + 1]) - base
            save_marks(work)
            unknown = work[UNKNOWN]
            at = _record(src, begin, end, program, names, work, out, row)
            if at >= 0:
                work[AT] = after_blanks(src, at, end)
                at = np.int64(0) if work[AT] == end else np.int64(-TRAILING)
            if at >= 0:
                rows[row] = number
                row += 1
                work[work[MARKS]] = row
            elif at <= -SLOTS_FULL:
                restore_marks(work)
                work[UNKNOWN], work[STOPPED], work[FULL] = unknown, number, -at
                return refusals
            else:
                restore_marks(work)
                refused[refusals, 0], refused[refusals, 1] = number, -at
                refused[refusals, 2], refused[refusals, 3] = work[NODE_AT], work[AT] - begin
                refusals += 1
        return refusals

    return decode_rows


def _digest():
    folder = Path(__file__).parent
    files = [*folder.glob("*.py"), folder.parent / "memory.py", Path(refusal.__file__)]
    return sum(zlib.crc32(path.read_bytes()) for path in [*files, Path(typed_types.__file__)])


decode_rows = _kernel(_digest())
