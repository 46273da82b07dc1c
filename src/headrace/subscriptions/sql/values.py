"""Values of SQL92 filters, and how two of them compare.

    both numbers            by value; as 64-bit floating point if one of them is
    text and an integer     the text must be an integer of 64 bits
    text and a decimal      the text must be a number
    text and TRUE or FALSE  text equals TRUE if it is "true" in any case, else FALSE
    text and text           equal character by character; ordered only if both are numbers
    NULL and anything       UNKNOWN, which is None

As in RocketMQ, a message whose text is no number where one is needed is not delivered, whatever
the rest of the expression says.
"""

import re

Value = str | int | float | bool | None
"""None: the message does not have the property, or the result is UNKNOWN."""
INTEGERS = range(-(1 << 63), 1 << 63)
_NUMBER_CHARS_MAX = 64
"""Characters of a text that is read as a number; parsing takes longer with more."""
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


class Incomparable(Exception):
    """Two values that do not compare: the message is not delivered."""


def equal(left: Value, right: Value) -> bool | None:
    """Return whether two values are equal. Raises Incomparable."""
    if left is None or right is None:
        return None
    if type(left) is type(right):
        return left == right
    if isinstance(right, str):
        left, right = right, left
    if isinstance(left, str):
        if isinstance(right, bool):
            return (left.lower() == "true") is right
        left = _number(left, right)
    elif isinstance(left, bool) or isinstance(right, bool):
        return False
    return float(left) == float(right) if type(left) is not type(right) else left == right


def difference(left: Value, right: Value) -> int | None:
    """Return a negative number if `left` is less, 0 or a positive one. Raises Incomparable."""
    if left is None or right is None:
        return None
    if isinstance(left, bool) or isinstance(right, bool):
        raise Incomparable
    if isinstance(left, str):
        left = _number(left, 0.0 if isinstance(right, str) else right)
    if isinstance(right, str):
        right = _number(right, left)
    if type(left) is not type(right):
        left, right = float(left), float(right)
    return (left > right) - (left < right)


def _number(text: str, like: object) -> int | float:
    """Return a text as a number of the type of `like`. Raises Incomparable."""
    if len(text) <= _NUMBER_CHARS_MAX:
        if isinstance(like, float):
            if _DECIMAL.fullmatch(stripped := text.strip(" \t\n\r\f")):
                return float(stripped)
        elif _INTEGER.fullmatch(text) and (value := int(text)) in INTEGERS:
            return value
    raise Incomparable
