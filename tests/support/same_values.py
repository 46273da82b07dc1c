"""Compare decoded values, doubles bit by bit."""

import math
import struct


def same(left: object, right: object) -> bool:
    """Return whether two values are equal, doubles bit by bit."""
    if isinstance(left, float) and isinstance(right, float):
        return struct.pack("<d", left) == struct.pack("<d", right) or (
            math.isnan(left) and math.isnan(right)
        )
    if isinstance(left, dict) and isinstance(right, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and left == right
