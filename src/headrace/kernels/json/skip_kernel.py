"""Values of keys that the schema does not declare: checked, not stored."""

# ruff: noqa: ANN001, ANN201, ANN202
# mypy: ignore-errors
# Types here are numba's, inferred from the arrays handed in; Python annotations would say nothing.

import numpy as np

from headrace.kernels.json.layout import NO_LIMIT, SKIPPED_AT, Head
from headrace.kernels.json.memory_kernel import compiled, load_8
from headrace.kernels.json.numbers_kernel import after_number
from headrace.kernels.json.text_kernel import QUOTE, after_blanks, read_string
from headrace.typed.refusal import Fault
from headrace.typed.types import DEPTH_MAX

SYNTAX, DEPTH = int(Fault.SYNTAX), int(Fault.DEPTH)
SCRATCH = int(Head.SCRATCH)
OBJECT, ARRAY, OBJECT_END, ARRAY_END, COMMA, COLON = 0x7B, 0x5B, 0x7D, 0x5D, 0x2C, 0x3A


@compiled
def is_word(src, at, end, word):
    """Return whether the token `word` is at `at`."""
    if at + len(word) > end:
        return False
    for place in range(len(word)):  # noqa: SIM110 - numba has no generators
        if load_8(src, at + place) != word[place]:
            return False
    return True


NULL, TRUE, FALSE = tuple(b"null"), tuple(b"true"), tuple(b"false")
NAN, INFINITY = tuple(b"NaN"), tuple(b"Infinity")


@compiled
def _after_scalar(src, at, end, out, scratch):
    """Return the place after the string, number or word at `at`, or -fault."""
    byte = load_8(src, at)
    if byte == QUOTE:
        at, _ = read_string(src, at + 1, end, out, scratch, NO_LIMIT)
        return at
    if byte == 0x74 and is_word(src, at, end, TRUE):
        return at + len(TRUE)
    if byte == 0x66 and is_word(src, at, end, FALSE):
        return at + len(FALSE)
    if byte == 0x6E and is_word(src, at, end, NULL):
        return at + len(NULL)
    if byte == 0x4E and is_word(src, at, end, NAN):
        return at + len(NAN)
    unsigned = at + (byte == 0x2D)
    if is_word(src, unsigned, end, INFINITY):
        return unsigned + len(INFINITY)
    return after_number(src, at, end)


@compiled
def after_key(src, at, end, out, scratch):
    """Return the place of the value whose key is at `at`, and the end of the key's text in
    `scratch`; the place is -fault if either is invalid."""
    if at >= end or load_8(src, at) != QUOTE:
        return np.int64(-SYNTAX), scratch
    at, text_end = read_string(src, at + 1, end, out, scratch, NO_LIMIT)
    if at < 0:
        return at, scratch
    at = after_blanks(src, at, end)
    if at >= end or load_8(src, at) != COLON:
        return np.int64(-SYNTAX), scratch
    return after_blanks(src, at + 1, end), text_end


@compiled
def after_value(src, at, end, work, out, depth):
    """Return the place after the value at `at`, or -fault. `depth`: open containers around it."""
    scratch = work[SCRATCH]
    base = depth
    while True:
        if at >= end:
            return np.int64(-SYNTAX)
        byte = load_8(src, at)
        if byte in (OBJECT, ARRAY):
            if depth >= DEPTH_MAX:
                return np.int64(-DEPTH)
            closing = byte + 2
            work[SKIPPED_AT + depth] = closing
            depth += 1
            at = after_blanks(src, at + 1, end)
            if at < end and load_8(src, at) == closing:
                at += 1
                depth -= 1
            else:
                if byte == OBJECT:
                    at, _ = after_key(src, at, end, out, scratch)
                    if at < 0:
                        return at
                continue
        else:
            at = _after_scalar(src, at, end, out, scratch)
            if at < 0:
                return at
        while depth > base:
            at = after_blanks(src, at, end)
            if at >= end:
                return np.int64(-SYNTAX)
            byte, closing = load_8(src, at), work[SKIPPED_AT + depth - 1]
            at += 1
            if byte == COMMA:
                at = after_blanks(src, at, end)
                if closing == OBJECT_END:
                    at, _ = after_key(src, at, end, out, scratch)
                    if at < 0:
                        return at
                break
            if byte != closing:
                return np.int64(-SYNTAX)
            depth -= 1
        if depth == base:
            return at
