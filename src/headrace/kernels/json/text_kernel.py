"""Strings of JSON: escapes, UTF-8, base64, and the spaces between tokens."""

# ruff: noqa: ANN001, ANN201, ANN202
# mypy: ignore-errors
# Types here are numba's, inferred from the arrays handed in; Python annotations would say nothing.

import numpy as np

from headrace.kernels.json.layout import TEXT_FULL
from headrace.kernels.json.memory_kernel import (
    STRIDE,
    compiled,
    load_8,
    lowest_bit,
    move_32,
    special_32,
    store_8,
)
from headrace.typed.refusal import Fault

SYNTAX, UTF8, SURROGATE = int(Fault.SYNTAX), int(Fault.UTF8), int(Fault.SURROGATE)
TYPE = int(Fault.TYPE)
QUOTE, BACKSLASH, SLASH, SPACE = 0x22, 0x5C, 0x2F, 0x20


@compiled
def after_blanks(src, at, end):
    """Return the place of the next byte that is not white space, at most `end`."""
    while at < end:
        byte = load_8(src, at)
        if byte > SPACE or (byte != SPACE and byte != 0x0A and byte != 0x0D and byte != 0x09):
            break
        at += 1
    return at


@compiled
def _utf8_size(src, at, end):
    """Return the size of the UTF-8 sequence at `at`, which is not ASCII; 0 if it is invalid."""
    first = load_8(src, at)
    size = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    if first < 0xC2 or first > 0xF4 or at + size > end:
        return np.int64(0)
    second = load_8(src, at + 1)
    lowest = 0xA0 if first == 0xE0 else 0x90 if first == 0xF0 else 0x80
    highest = 0x9F if first == 0xED else 0x8F if first == 0xF4 else 0xBF
    if second < lowest or second > highest:
        return np.int64(0)
    for place in range(at + 2, at + size):
        if load_8(src, place) & 0xC0 != 0x80:
            return np.int64(0)
    return np.int64(size)


@compiled
def _hex_4(src, at, end):
    """Return the number of four hexadecimal digits; -1 if they are not there."""
    if at + 4 > end:
        return np.int64(-1)
    number = np.int64(0)
    for place in range(at, at + 4):
        byte = load_8(src, place)
        lower = byte | 0x20
        if 0x30 <= byte <= 0x39:
            digit = byte - 0x30
        elif 0x61 <= lower <= 0x66:
            digit = lower - 0x57
        else:
            return np.int64(-1)
        number = number << 4 | digit
    return number


@compiled
def _put_code_point(out, to, code):
    """Write a code point in UTF-8; return the place after it."""
    if code < 0x80:
        store_8(out, to, code)
        return to + 1
    if code < 0x800:
        store_8(out, to, 0xC0 | code >> 6)
        store_8(out, to + 1, 0x80 | code & 0x3F)
        return to + 2
    if code < 0x10000:
        store_8(out, to, 0xE0 | code >> 12)
        store_8(out, to + 1, 0x80 | code >> 6 & 0x3F)
        store_8(out, to + 2, 0x80 | code & 0x3F)
        return to + 3
    store_8(out, to, 0xF0 | code >> 18)
    store_8(out, to + 1, 0x80 | code >> 12 & 0x3F)
    store_8(out, to + 2, 0x80 | code >> 6 & 0x3F)
    store_8(out, to + 3, 0x80 | code & 0x3F)
    return to + 4


@compiled
def _short_escape(byte):
    """Return the character of an escape with one letter; -1 if JSON has no such escape."""
    if byte in (QUOTE, BACKSLASH, SLASH):
        return byte
    if byte == 0x6E:
        return np.int64(0x0A)
    if byte == 0x74:
        return np.int64(0x09)
    if byte == 0x72:
        return np.int64(0x0D)
    if byte == 0x62:
        return np.int64(0x08)
    if byte == 0x66:
        return np.int64(0x0C)
    return np.int64(-1)


@compiled
def _escape(src, at, end, out, to):
    """Write the character of the escape at `at`; return the places after both, or -fault."""
    if at + 2 > end:
        return np.int64(-SYNTAX), to
    byte = load_8(src, at + 1)
    if byte != 0x75:
        code = _short_escape(byte)
        if code < 0:
            return np.int64(-SYNTAX), to
        store_8(out, to, code)
        return at + 2, to + 1
    code = _hex_4(src, at + 2, end)
    if code < 0:
        return np.int64(-SYNTAX), to
    at += 6
    if 0xD800 <= code <= 0xDFFF:
        if code > 0xDBFF or at + 6 > end or load_8(src, at) != BACKSLASH:
            return np.int64(-SURROGATE), to
        low = _hex_4(src, at + 2, end) if load_8(src, at + 1) == 0x75 else np.int64(-1)
        if low < 0xDC00 or low > 0xDFFF:
            return np.int64(-SURROGATE), to
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
        at += 6
    return at, _put_code_point(out, to, code)


@compiled
def _long_string(src, at, end, out, to, limit):
    """Do as `read_string` for any string."""
    while at < end:
        if to > limit:
            return np.int64(-TEXT_FULL), to
        marks = special_32(src, at)
        move_32(out, to, src, at)
        if marks == 0:
            at += STRIDE
            to += STRIDE
            continue
        plain = lowest_bit(marks)
        at += plain
        to += plain
        if at >= end:
            break
        byte = load_8(src, at)
        if byte == QUOTE:
            return at + 1, to
        if byte == BACKSLASH:
            at, to = _escape(src, at, end, out, to)
            if at < 0:
                return at, to
        elif byte < SPACE:
            return np.int64(-SYNTAX), to
        else:
            size = _utf8_size(src, at, end)
            if size == 0:
                return np.int64(-UTF8), to
            for place in range(size):
                store_8(out, to + place, load_8(src, at + place))
            at += size
            to += size
    return np.int64(-SYNTAX), to


@compiled
def read_string(src, at, end, out, to, limit):
    """Write the string whose opening quote is before `at`, unescaped and checked, to `out`.

    Returns the places after the closing quote and after the text, or -fault; -TEXT_FULL if the text
    may reach beyond `limit`. At most 36 bytes after `limit`, and 32 bytes more than the source has,
    are overwritten.
    """
    if to > limit:
        return np.int64(-TEXT_FULL), to
    marks = special_32(src, at)
    move_32(out, to, src, at)
    size = lowest_bit(marks)
    if marks != 0 and at + size < end and load_8(src, at + size) == QUOTE:
        return at + size + 1, to + size
    return _long_string(src, at, end, out, to, limit)


@compiled
def _base64_digit(byte):
    if 0x41 <= byte <= 0x5A:
        return byte - 0x41
    if 0x61 <= byte <= 0x7A:
        return byte - 0x47
    if 0x30 <= byte <= 0x39:
        return byte + 4
    if byte == 0x2B:
        return np.int64(62)
    return np.int64(63) if byte == 0x2F else np.int64(-1)


@compiled
def decode_base64(out, at, end):
    """Decode the base64 text between `at` and `end` in place; return the end of its bytes, or
    -fault."""
    size = end - at
    if size & 3:
        return np.int64(-TYPE)
    padding = 0
    while padding < 2 and padding < size and load_8(out, end - 1 - padding) == 0x3D:
        padding += 1
    to, bits, word = at, 0, np.int64(0)
    for place in range(at, end - padding):
        digit = _base64_digit(load_8(out, place))
        if digit < 0:
            return np.int64(-TYPE)
        word = word << 6 | digit
        bits += 6
        if bits >= 8:
            bits -= 8
            store_8(out, to, word >> bits)
            to += 1
            word &= (1 << bits) - 1
    return to
