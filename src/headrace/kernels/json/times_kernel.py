"""Times of JSON: ISO 8601 text, and numbers of units since 1970.

Microseconds since 1970 for TIMESTAMP and TIMESTAMP_NTZ, days for DATE. Years are 1 to 9999.
"""

# ruff: noqa: ANN001, ANN201, ANN202
# mypy: ignore-errors
# Types here are numba's, inferred from the arrays handed in; Python annotations would say nothing.

import numpy as np

from headrace.kernels.json.doubles_kernel import HIGH_BITS, read_digits
from headrace.kernels.json.memory_kernel import compiled, load_8, load_64
from headrace.typed.refusal import Fault
from headrace.typed.types import Unit

SYNTAX, TYPE, RANGE = int(Fault.SYNTAX), int(Fault.TYPE), int(Fault.RANGE)
TIME, NO_ZONE, ZONE = int(Fault.TIME), int(Fault.NO_ZONE), int(Fault.ZONE)
ISO, ISO_UTC, NANOS = int(Unit.ISO), int(Unit.ISO_UTC), int(Unit.NANOS)
SECONDS, MILLIS = int(Unit.SECONDS), int(Unit.MILLIS)
U = np.uint64
DAY_MIN, DAY_MAX = -719162, 2932896
"""0001-01-01 and 9999-12-31."""
MICROS_PER_SECOND = 1_000_000
MICROS_PER_DAY = 86_400 * MICROS_PER_SECOND
MICROS_MIN, MICROS_MAX = DAY_MIN * MICROS_PER_DAY, (DAY_MAX + 1) * MICROS_PER_DAY - 1
OFFSET_MINUTES_MAX = 18 * 60
DATE_CHARACTERS = int.from_bytes(b"0000-00-", "little")
DATE_BOUNDS = int.from_bytes(b"\x76\x76\x76\x76\x7f\x76\x76\x7f", "little")
"""Added to a digit, it sets the high bit from 10 on; to a separator's difference, from 1 on."""
POINT, COLON, MINUS, PLUS, LETTER_Z = 0x2E, 0x3A, 0x2D, 0x2B, 0x5A


@compiled
def _two_digits(src, at):
    """Return the number of two digits; 100 or more if either is not a digit."""
    tens, units = load_8(src, at) - 0x30, load_8(src, at + 1) - 0x30
    return tens * 10 + units if 0 <= tens <= 9 and 0 <= units <= 9 else np.int64(100)


@compiled
def read_date(src, at, end):
    """Return the days of the date at `at`; DAY_MIN - 1 if it is not a valid date of ten bytes."""
    nothing = np.int64(DAY_MIN - 1)
    if at + 10 > end:
        return nothing
    digits = load_64(src, at) ^ DATE_CHARACTERS
    day = _two_digits(src, at + 8)
    if (digits | (digits + DATE_BOUNDS)) & HIGH_BITS or day > 31 or day == 0:
        return nothing
    pairs = digits * 10 + (digits >> 8)
    year = (pairs & 0xFF) * 100 + (pairs >> 16 & 0xFF)
    month = pairs >> 40 & 0xFF
    if month == 0 or month > 12 or year == 0:
        return nothing
    if day > 28:
        leap = year & 3 == 0 and (year % 100 != 0 or year % 400 == 0)
        longest = 28 + leap if month == 2 else 30 + (month + (month >> 3) & 1)
        if day > longest:
            return nothing
    # Count from March on, so that a leap day is the last of its year.
    months = month + 9 if month < 3 else month - 3
    years = year - (month < 3)
    century = years // 100
    return (1461 * years >> 2) - century + (century >> 2) + (153 * months + 2) // 5 + day - 719469


@compiled
def _fraction(src, at, end):
    """Return the microseconds of the digits at `at`, and the place after them; -1 without digits.

    Digits beyond the sixth are dropped.
    """
    begin, micros = at, np.int64(0)
    while at < end:
        digit = load_8(src, at) - 0x30
        if digit < 0 or digit > 9:
            break
        if at < begin + 6:
            micros = micros * 10 + digit
        at += 1
    for _ in range(at - begin, 6):
        micros *= 10
    return micros, at if at > begin else np.int64(-1)


@compiled
def _offset(src, at, end):
    """Return minutes ahead of UTC and the place after the zone at `at`; without a zone the place is
    `at`. -1 if it is not valid."""
    if at >= end:
        return np.int64(0), at
    sign = load_8(src, at)
    if sign == LETTER_Z:
        return np.int64(0), at + 1
    if sign != PLUS and sign != MINUS:
        return np.int64(0), at
    if at + 3 > end:
        return np.int64(0), np.int64(-1)
    hours, minutes = _two_digits(src, at + 1), np.int64(0)
    at += 3
    colon = at < end and load_8(src, at) == COLON
    if colon or (at < end and 0x30 <= load_8(src, at) <= 0x39):
        at += colon
        minutes = _two_digits(src, at) if at + 2 <= end else np.int64(100)
        at += 2
    if minutes > 59 or 60 * hours + minutes > OFFSET_MINUTES_MAX:
        return np.int64(0), np.int64(-1)
    ahead = 60 * hours + minutes
    return -ahead if sign == MINUS else ahead, at


@compiled
def read_time(src, at, end, unit, zoned):
    """Return the microseconds of the ISO time at `at` and the place after it, or -fault.

    `zoned`: TIMESTAMP; else TIMESTAMP_NTZ. Any text may follow.
    """
    nothing = np.int64(0)
    day = read_date(src, at, end)
    if day < DAY_MIN:
        return nothing, np.int64(-TIME)
    micros = day * MICROS_PER_DAY
    at += 10
    ahead, has_zone = nothing, False
    if at + 6 <= end and (load_8(src, at) == 0x54 or load_8(src, at) == 0x20):
        hours, minutes = _two_digits(src, at + 1), _two_digits(src, at + 4)
        seconds = nothing
        if hours > 23 or minutes > 59 or load_8(src, at + 3) != COLON:
            return nothing, np.int64(-TIME)
        at += 6
        if at + 3 <= end and load_8(src, at) == COLON:
            seconds = _two_digits(src, at + 1)
            if seconds > 59:
                return nothing, np.int64(-TIME)
            at += 3
            if at < end and load_8(src, at) == POINT:
                fraction, at = _fraction(src, at + 1, end)
                if at < 0:
                    return nothing, np.int64(-TIME)
                micros += fraction
        micros += ((hours * 60 + minutes) * 60 + seconds) * MICROS_PER_SECOND
        ahead, after = _offset(src, at, end)
        has_zone = after != at
        at = after
        if at < 0:
            return nothing, np.int64(-TIME)
    micros -= ahead * (60 * MICROS_PER_SECOND)
    if zoned and not has_zone and unit == ISO:
        return at, np.int64(-NO_ZONE)
    if not zoned and has_zone:
        return at, np.int64(-ZONE)
    if micros < MICROS_MIN or micros > MICROS_MAX:
        return at, np.int64(-RANGE)
    return micros, at


@compiled
def read_epoch(src, at, end, unit):
    """Return the microseconds of a number of units since 1970, rounded down, and the place after
    it, or -fault."""
    nothing = np.int64(0)
    negative = load_8(src, at) == MINUS
    at += negative
    first = at
    number, at = read_digits(src, at, end, U(0))
    size = at - first
    if size == 0:
        return nothing, np.int64(-TYPE)
    if size > 1 and load_8(src, first) == 0x30:
        return nothing, np.int64(-SYNTAX)
    digits = 6 if unit == SECONDS else 3 if unit == MILLIS else 0
    """Digits of the fraction that are whole microseconds."""
    fraction, cut = nothing, False
    if at < end and load_8(src, at) == POINT:
        at += 1
        begin = at
        while at < end and 0x30 <= load_8(src, at) <= 0x39:
            if at < begin + digits:
                fraction = fraction * 10 + load_8(src, at) - 0x30
            else:
                cut |= load_8(src, at) != 0x30
            at += 1
        if at == begin:
            return nothing, np.int64(-SYNTAX)
        digits -= min(at - begin, digits)
    if at < end and load_8(src, at) | 0x20 == 0x65:
        return nothing, np.int64(-TYPE)
    if size > 19 or number >= U(1) << U(63):
        return nothing, np.int64(-RANGE)
    micros = np.int64(number)
    if unit == NANOS:
        cut |= micros % 1000 != 0
        micros //= 1000
    scale = MICROS_PER_SECOND if unit == SECONDS else 1000 if unit == MILLIS else 1
    if micros > MICROS_MAX // scale + 1:
        return nothing, np.int64(-RANGE)
    for _ in range(digits):
        fraction *= 10
    micros = micros * scale + fraction
    if negative:
        micros = -micros - cut
    if micros < MICROS_MIN or micros > MICROS_MAX:
        return nothing, np.int64(-RANGE)
    return micros, at
