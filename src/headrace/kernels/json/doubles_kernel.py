"""Doubles of JSON, bit-equal to Python's `float`.

Three ways, by the number's decimal digits w and exponent q in w × 10^q:

1. w <= 2^53 and |q| <= 22: w and 10^|q| are exact doubles, so one rounding gives the result
   (Clinger, 1990).
2. At most 19 digits: w times a 128-bit approximation of 5^q shows the result, unless it lies too
   near to the middle between two doubles (Lemire, "Number Parsing at a Gigabyte per Second", 2021).
3. Any other number, subnormal ones included: Python's own conversion.
"""

# ruff: noqa: ANN001, ANN201, ANN202
# mypy: ignore-errors
# Types here are numba's, inferred from the arrays handed in; Python annotations would say nothing.

import numpy as np

from headrace.kernels.json.memory_kernel import (
    bits_of_double,
    bits_of_float,
    compiled,
    double_of_bits,
    leading_zeros,
    load_8,
    load_64,
    multiply_high,
    parse_double,
)
from headrace.typed.refusal import Fault

SYNTAX, TYPE, RANGE = int(Fault.SYNTAX), int(Fault.TYPE), int(Fault.RANGE)
U = np.uint64
POWER_MIN, POWER_MAX = -342, 308
EXACT_MAX = 1 << 53
DIGITS_MAX = 19
EXPONENT_MAX = 100_000
"""Larger exponents are cut to this; the result is 0 or beyond a double either way."""
ZEROS = 0x3030303030303030
HIGH_BITS = -0x7F7F7F7F7F7F7F80
TEN_UP = 0x7676767676767676
"""Added to a byte, it sets the high bit from 10 on."""


def _powers_of_five():
    """Return the upper 128 bits of 5^q, two words each; rounded up for q < 0."""
    words = np.empty(2 * (POWER_MAX - POWER_MIN + 1), np.uint64)
    for power in range(POWER_MIN, POWER_MAX + 1):
        five = 5 ** abs(power)
        bits = five.bit_length()
        number = (1 << bits + 127) // five + 1 if power < 0 else five << 128 >> bits
        place = 2 * (power - POWER_MIN)
        words[place], words[place + 1] = number >> 64, number & (1 << 64) - 1
    return words


FIVES = _powers_of_five()
TENS = np.array([10.0**power for power in range(23)])


@compiled
def eight_digits(word):
    """Return the number of eight ASCII digits; -1 if any byte is not a digit."""
    digits = word ^ ZEROS
    if (digits | (digits + TEN_UP)) & HIGH_BITS:
        return np.int64(-1)
    pairs = digits * 10 + (digits >> 8)
    low = (pairs & 0x000000FF000000FF) * (100 + (1000000 << 32))
    high = (pairs >> 16 & 0x000000FF000000FF) * (1 + (10000 << 32))
    return low + high >> 32 & 0xFFFFFFFF


@compiled
def read_digits(src, at, end, number):
    """Append the digits at `at` to `number`, which may wrap; return it and the place after them."""
    while at + 8 <= end:
        eight = eight_digits(load_64(src, at))
        if eight < 0:
            break
        number = number * U(100000000) + U(eight)
        at += 8
    while at < end:
        digit = load_8(src, at) - 0x30
        if digit < 0 or digit > 9:
            break
        number = number * U(10) + U(digit)
        at += 1
    return number, at


@compiled
def read_exponent(src, at, end):
    """Return the exponent whose `e` is at `at`, and the place after it, or -SYNTAX."""
    at += 1
    negative = at < end and load_8(src, at) == 0x2D
    if negative or (at < end and load_8(src, at) == 0x2B):
        at += 1
    begin, exponent = at, np.int64(0)
    while at < end:
        digit = load_8(src, at) - 0x30
        if digit < 0 or digit > 9:
            break
        exponent = min(exponent * 10 + digit, EXPONENT_MAX)
        at += 1
    if at == begin:
        return exponent, np.int64(-SYNTAX)
    return -exponent if negative else exponent, at


@compiled
def _scaled(digits, power):
    """Return the double nearest to digits × 10^power; NaN if it cannot be told here."""
    if power < POWER_MIN or power > POWER_MAX:
        return np.nan
    shift = leading_zeros(digits)
    digits <<= U(shift)
    place = 2 * (power - POWER_MIN)
    high = multiply_high(digits, FIVES[place])
    low = digits * FIVES[place]
    if high & U(0x1FF) == U(0x1FF):
        # The product's lower half may carry into the bits that decide.
        carry = multiply_high(digits, FIVES[place + 1])
        low += carry
        if carry > low:
            high += U(1)
    if low == U(0xFFFFFFFFFFFFFFFF):
        return np.nan
    upper = high >> U(63)
    mantissa = high >> (upper + U(9))
    # 217706 / 65536 approximates the binary logarithm of 10.
    binary = (217706 * power >> 16) + 63 + np.int64(upper) - shift + 1023
    if binary <= 0:
        return np.nan
    if (
        low <= U(1)
        and -4 <= power <= 23
        and mantissa & U(3) == U(1)
        and mantissa << (upper + U(9)) == high
    ):
        mantissa &= ~U(1)  # Exactly in the middle: to the even one.
    mantissa = (mantissa + (mantissa & U(1))) >> U(1)
    if mantissa >= U(EXACT_MAX):
        mantissa >>= U(1)
        binary += 1
    if binary >= 2047:
        return np.nan
    return double_of_bits(np.int64(mantissa & U((1 << 52) - 1)) | binary << 52)


@compiled
def _leading_zeros(src, at):
    """Count the zeros before the first other digit of a number."""
    zeros = np.int64(0)
    while load_8(src, at) == 0x30 or load_8(src, at) == 0x2E:
        zeros += load_8(src, at) == 0x30
        at += 1
    return zeros


@compiled
def read_double(src, at, end):
    """Return the number at `at` as a double and the place after it, or -fault."""
    begin = at
    negative = load_8(src, at) == 0x2D
    if negative:
        at += 1
    first = at
    digits, at = read_digits(src, at, end, U(0))
    size = at - first
    if size == 0:
        return 0.0, np.int64(-TYPE)
    if size > 1 and load_8(src, first) == 0x30:
        return 0.0, np.int64(-SYNTAX)
    power = np.int64(0)
    if at < end and load_8(src, at) == 0x2E:
        point = at
        digits, at = read_digits(src, at + 1, end, digits)
        power = point + 1 - at
        if power == 0:
            return 0.0, np.int64(-SYNTAX)
        size -= power
    if at < end and load_8(src, at) | 0x20 == 0x65:
        exponent, at = read_exponent(src, at, end)
        if at < 0:
            return 0.0, at
        power += exponent
    if size > DIGITS_MAX:
        size -= _leading_zeros(src, first)
    if size <= DIGITS_MAX and digits <= U(EXACT_MAX) and -22 <= power <= 22:
        number = np.float64(np.int64(digits))
        number = number / TENS[-power] if power < 0 else number * TENS[power]
    else:
        number = np.nan
        if size <= DIGITS_MAX and digits != U(0):
            number = _scaled(digits, power)
        if number != number:
            number = abs(parse_double(src, begin))
            if number == np.inf:
                return 0.0, np.int64(-RANGE)
    if negative:
        number = double_of_bits(bits_of_double(number) | np.int64(-1) << 63)
    return number, at


@compiled
def float_bits(number):
    """Return the bits of the nearest float; -RANGE if a finite number is beyond it."""
    bits = bits_of_float(number)
    if bits & 0x7FFFFFFF == 0x7F800000 and abs(number) != np.inf:
        return np.int64(-RANGE)
    return bits
