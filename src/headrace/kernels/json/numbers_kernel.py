"""Integers and decimals of JSON."""

# ruff: noqa: ANN001, ANN201, ANN202
# mypy: ignore-errors
# Types here are numba's, inferred from the arrays handed in; Python annotations would say nothing.

import numpy as np

from headrace.kernels.json.doubles_kernel import read_digits, read_exponent
from headrace.kernels.json.memory_kernel import compiled, load_8, multiply_high
from headrace.typed.refusal import Fault

SYNTAX, TYPE, RANGE = int(Fault.SYNTAX), int(Fault.TYPE), int(Fault.RANGE)
INEXACT = int(Fault.INEXACT)
U = np.uint64
MINUS, PLUS, POINT, ZERO, LOWER_E = 0x2D, 0x2B, 0x2E, 0x30, 0x65
INTEGER_DIGITS_MAX = 19
WORD_DIGITS = 19
"""Decimal digits that any uint64 holds."""


@compiled
def read_integer(src, at, end, bits):
    """Return the integer at `at`, which must fit `bits`, and the place after it, or -fault."""
    negative = load_8(src, at) == MINUS
    if negative:
        at += 1
    first = at
    number, at = read_digits(src, at, end, U(0))
    size = at - first
    if size == 0:
        return np.int64(0), np.int64(-TYPE)
    if size > 1 and load_8(src, first) == ZERO:
        return np.int64(0), np.int64(-SYNTAX)
    if at < end and (load_8(src, at) == POINT or load_8(src, at) | 0x20 == LOWER_E):
        return np.int64(0), np.int64(-TYPE)
    bound = U(1) << U(bits - 1)
    if size > INTEGER_DIGITS_MAX or number > bound or (number == bound and not negative):
        return np.int64(0), np.int64(-RANGE)
    value = np.int64(number)
    return -value if negative else value, at


@compiled
def after_number(src, at, end):
    """Return the place after the JSON number at `at`, or -SYNTAX."""
    if at < end and load_8(src, at) == MINUS:
        at += 1
    first = at
    _, at = read_digits(src, at, end, U(0))
    if at == first or (at - first > 1 and load_8(src, first) == ZERO):
        return np.int64(-SYNTAX)
    if at < end and load_8(src, at) == POINT:
        point = at
        _, at = read_digits(src, at + 1, end, U(0))
        if at == point + 1:
            return np.int64(-SYNTAX)
    if at < end and load_8(src, at) | 0x20 == LOWER_E:
        _, at = read_exponent(src, at, end)
    return at


@compiled
def _digits_of(src, at, end):
    """Return of the valid number at `at`: the place and the count of its digits from the first that
    is not 0 to the last before the exponent, the count after the point, and the exponent."""
    first, count, after_point = np.int64(-1), np.int64(0), np.int64(0)
    exponent, has_point = np.int64(0), False
    while at < end:
        byte = load_8(src, at)
        if byte == POINT:
            has_point = True
        elif ZERO <= byte <= ZERO + 9:
            if first < 0 and byte != ZERO:
                first = at
            count += first >= 0
            after_point += has_point
        elif byte | 0x20 == LOWER_E:
            exponent, _ = read_exponent(src, at, end)
            break
        else:
            break
        at += 1
    return first, count, after_point, exponent


@compiled
def read_decimal(src, at, end, precision, scale):
    """Return the unscaled decimal at `at` (low and high word) and the place after it, or -fault.

    Exact: digits beyond the scale must be zeros.
    """
    nothing = U(0)
    after = after_number(src, at, end)
    if after < 0:
        return nothing, nothing, after
    negative = load_8(src, at) == MINUS
    place, count, after_point, exponent = _digits_of(src, at + negative, after)
    if count == 0:
        return nothing, nothing, after
    taken = count + exponent - after_point + scale
    """Digits of the unscaled number; those that the text does not have are zeros."""
    if taken > precision or taken < 1:
        # Digits that are not 0 remain on one side; the first one is not 0.
        return nothing, nothing, np.int64(-INEXACT)
    low, high, done = U(0), U(0), np.int64(0)
    while done < count or done < taken:
        digit = np.int64(0)
        if done < count:
            digit = load_8(src, place) - ZERO
            place += 1
            if digit == POINT - ZERO:
                continue
        if done < taken:
            # The 128-bit number times 10, plus the digit.
            high = high * U(10) + multiply_high(low, U(10))
            low *= U(10)
            low += U(digit)
            high += U(low < U(digit))
        elif digit != 0:
            return nothing, nothing, np.int64(-INEXACT)
        done += 1
    if negative:
        low = ~low + U(1)
        high = ~high + U(low == U(0))
    return low, high, after
