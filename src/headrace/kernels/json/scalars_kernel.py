"""Values of declared fields that are no container: read by their type and stored in their slot."""

# ruff: noqa: ANN001, ANN201, ANN202
# mypy: ignore-errors
# Types here are numba's, inferred from the arrays handed in; Python annotations would say nothing.

import numpy as np

from headrace.kernels.json.doubles_kernel import float_bits, read_double
from headrace.kernels.json.layout import NO_LIMIT, Col, Head
from headrace.kernels.json.marks_kernel import put_end
from headrace.kernels.json.memory_kernel import (
    bits_of_double,
    compiled,
    load_8,
    store_8,
    store_64,
)
from headrace.kernels.json.numbers_kernel import after_number, read_decimal, read_integer
from headrace.kernels.json.skip_kernel import FALSE, INFINITY, NAN, TRUE, is_word
from headrace.kernels.json.text_kernel import QUOTE, decode_base64, read_string
from headrace.kernels.json.times_kernel import DAY_MIN, MINUS, read_date, read_epoch, read_time
from headrace.typed.refusal import Fault
from headrace.typed.types import Kind, Unit

SYNTAX, TYPE, RANGE, TIME = (
    int(Fault.SYNTAX), int(Fault.TYPE), int(Fault.RANGE), int(Fault.TIME)
)  # fmt: skip
KIND, VALID, DATA, SHIFT = int(Col.KIND), int(Col.VALID), int(Col.DATA), int(Col.SHIFT)
BYTES, MARK, UNIT = int(Col.BYTES), int(Col.MARK), int(Col.UNIT)
PRECISION, SCALE, LIMIT = int(Col.PRECISION), int(Col.SCALE), int(Col.LIMIT)
SCRATCH, MARKS = int(Head.SCRATCH), int(Head.MARKS)
STRING, BOOLEAN, BINARY = int(Kind.STRING), int(Kind.BOOLEAN), int(Kind.BINARY)
TINYINT, BIGINT = int(Kind.TINYINT), int(Kind.BIGINT)
DOUBLE, FLOAT, DECIMAL = int(Kind.DOUBLE), int(Kind.FLOAT), int(Kind.DECIMAL)
TIMESTAMP, DATE = int(Kind.TIMESTAMP), int(Kind.DATE)
ISO_UTC, DAYS = int(Unit.ISO_UTC), int(Unit.DAYS)
DAY_BITS = 64
DAY_MAX = 2932896
PLUS_INFINITY, INF = tuple(b"+Infinity"), tuple(b"INF")


@compiled
def _not_number(src, at, end):
    """Return the double of the token NaN, Infinity or -Infinity at `at` and the place after it, or
    -TYPE."""
    if is_word(src, at, end, NAN):
        return np.nan, at + len(NAN)
    negative = at < end and load_8(src, at) == MINUS
    at += negative
    if is_word(src, at, end, INFINITY):
        return -np.inf if negative else np.inf, at + len(INFINITY)
    return 0.0, np.int64(-TYPE)


@compiled
def _text_number(out, at, end):
    """Return the double that the text between `at` and `end` names, and its end, or -TYPE."""
    number, after = _not_number(out, at, end)
    if after == end:
        return number, after
    if is_word(out, at, end, PLUS_INFINITY) and end - at == len(PLUS_INFINITY):
        return np.inf, end
    if end - at == len(INF) + 1 and is_word(out, at + 1, end, INF):
        if load_8(out, at) == MINUS:
            return -np.inf, end
        if load_8(out, at) == 0x2B:
            return np.inf, end
    return 0.0, np.int64(-TYPE)


@compiled
def put_string(src, at, end, program, work, out, node, slot):
    """Store the string whose opening quote is before `at`; return the place after it, or -fault."""
    mark = work[MARKS] + program[node, MARK]
    data = program[node, BYTES]
    at, to = read_string(src, at, end, out, data + work[mark], program[node, LIMIT])
    if at >= 0:
        work[mark] = to - data
        put_end(program, work, out, node, slot)
        store_8(out, program[node, VALID] + slot, 1)
    return at


@compiled
def _put_binary(src, at, end, program, work, out, node, slot):
    mark = work[MARKS] + program[node, MARK]
    data = program[node, BYTES]
    begin = data + work[mark]
    at, to = read_string(src, at, end, out, begin, program[node, LIMIT])
    if at >= 0:
        to = decode_base64(out, begin, to)
        if to < 0:
            return to
        work[mark] = to - data
        put_end(program, work, out, node, slot)
    return at


@compiled
def _put_double(src, at, end, program, work, out, node, slot):
    """Store a DOUBLE or FLOAT: a number, or a name of a double that JSON does not have."""
    byte = load_8(src, at)
    if byte == QUOTE:
        scratch = work[SCRATCH]
        at, to = read_string(src, at + 1, end, out, scratch, NO_LIMIT)
        if at < 0:
            return at
        number, to = _text_number(out, scratch, to)
        if to < 0:
            return to
    else:
        number, after = read_double(src, at, end)
        if after == -TYPE:
            number, after = _not_number(src, at, end)
        if after < 0:
            return after
        at = after
    if program[node, KIND] == FLOAT:
        bits = float_bits(number)
        if bits < 0:
            return bits
        store_64(out, program[node, DATA] + (slot << 2), bits)
    else:
        store_64(out, program[node, DATA] + (slot << 3), bits_of_double(number))
    return at


@compiled
def _put_decimal(src, at, end, program, work, out, node, slot):
    precision, scale = program[node, PRECISION], program[node, SCALE]
    if load_8(src, at) == QUOTE:
        scratch = work[SCRATCH]
        at, to = read_string(src, at + 1, end, out, scratch, NO_LIMIT)
        if at < 0:
            return at
        if after_number(out, scratch, to) != to:
            return np.int64(-TYPE)
        low, high, after = read_decimal(out, scratch, to, precision, scale)
        if after < 0:
            return after
    else:
        low, high, after = read_decimal(src, at, end, precision, scale)
        if after == -SYNTAX:
            after = np.int64(-TYPE)
        if after < 0:
            return after
        at = after
    store_64(out, program[node, DATA] + (slot << 4), np.int64(low))
    store_64(out, program[node, DATA] + (slot << 4) + 8, np.int64(high))
    return at


@compiled
def _iso(src, at, end, program, node):
    """Return the value of an ISO time or date and the place after it, or -fault."""
    if program[node, KIND] == DATE:
        days = read_date(src, at, end)
        return days, at + 10 if days >= DAY_MIN else np.int64(-TIME)
    return read_time(src, at, end, program[node, UNIT], program[node, KIND] == TIMESTAMP)


@compiled
def _put_epoch(src, at, end, program, out, node, slot):
    if program[node, UNIT] == DAYS:
        number, at = read_integer(src, at, end, DAY_BITS)
        if at >= 0 and (number < DAY_MIN or number > DAY_MAX):
            return np.int64(-RANGE)
    else:
        number, at = read_epoch(src, at, end, program[node, UNIT])
    if at >= 0:
        store_64(out, program[node, DATA] + (slot << program[node, SHIFT]), number)
    return at


@compiled
def _iso_escaped(src, at, end, program, work, out, node):
    """Do as `_iso` for a string that has escapes, or that is not valid."""
    scratch = work[SCRATCH]
    at, to = read_string(src, at, end, out, scratch, NO_LIMIT)
    if at < 0:
        return np.int64(0), at
    value, after = _iso(out, scratch, to, program, node)
    # A fault of a time that ends before its text does is a fault of the text.
    if after < 0 and after != -TIME and value != to:
        after = np.int64(-TIME)
    if after < 0:
        return value, after
    return value, at if after == to else np.int64(-TIME)


@compiled
def put_time(src, at, end, program, work, out, node, slot):
    """Store a TIMESTAMP, TIMESTAMP_NTZ or DATE; return the place after it, or -fault."""
    if program[node, UNIT] > ISO_UTC:
        return _put_epoch(src, at, end, program, out, node, slot)
    if load_8(src, at) != QUOTE:
        return np.int64(-TYPE)
    value, after = _iso(src, at + 1, end, program, node)
    if after >= 0 and after < end and load_8(src, after) == QUOTE:
        at = after + 1
    else:
        value, at = _iso_escaped(src, at + 1, end, program, work, out, node)
        if at < 0:
            return at
    store_64(out, program[node, DATA] + (slot << program[node, SHIFT]), value)
    return at


@compiled
def put_scalar(src, at, end, program, work, out, node, slot):
    """Store the value at `at`, which is not null; return the place after it, or -fault."""
    kind = program[node, KIND]
    if TINYINT <= kind <= BIGINT:
        number, at = read_integer(src, at, end, program[node, PRECISION])
        store_64(out, program[node, DATA] + (slot << program[node, SHIFT]), number)
    elif kind in (DOUBLE, FLOAT):
        at = _put_double(src, at, end, program, work, out, node, slot)
    elif kind == BOOLEAN:
        value = load_8(src, at) == 0x74
        if value and is_word(src, at, end, TRUE):
            at += len(TRUE)
        elif is_word(src, at, end, FALSE):
            at += len(FALSE)
        else:
            return np.int64(-TYPE)
        store_8(out, program[node, DATA] + slot, value)
    elif kind >= TIMESTAMP and kind <= DATE:
        at = put_time(src, at, end, program, work, out, node, slot)
    elif kind == DECIMAL:
        at = _put_decimal(src, at, end, program, work, out, node, slot)
    elif load_8(src, at) != QUOTE:
        return np.int64(-TYPE)
    else:
        at = _put_binary(src, at + 1, end, program, work, out, node, slot)
    if at >= 0:
        store_8(out, program[node, VALID] + slot, 1)
    return at
