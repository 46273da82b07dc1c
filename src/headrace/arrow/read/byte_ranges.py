"""Vectorised operations on many byte ranges: numbers, strings and Arrow arrays made of them.

`data` is an array of bytes; positions in it are integer arrays. numpy and Arrow process all
positions at once.
"""

import numpy as np
import pyarrow as pa

from headrace.arrow.read.c_data import Array


def ranges_of(values: pa.BinaryArray, beyond: int) -> tuple[Array, Array, Array]:
    """Return the bytes of all values with `beyond` zeros appended, and each value's begin and end.

    The zeros let callers read that many bytes past a value's end. `values` must not be a slice.
    """
    _, ends, data = values.buffers()
    bounds = np.frombuffer(ends, np.int32)[: len(values) + 1].astype(np.int64)
    content = np.frombuffer(data or b"", np.uint8)
    return np.concatenate([content, np.zeros(beyond, np.uint8)]), bounds[:-1], bounds[1:]


def numbers(data: Array, places: Array, size: int) -> Array:
    """Return the big-endian unsigned integers of `size` bytes (a power of two) at these
    positions."""
    found: Array = data[places[:, None] + np.arange(size)].view(f">u{size}")[:, 0]
    return found


def cut(data: Array, begin: Array, end: Array) -> pa.BinaryArray:
    """Copy the ranges from `begin` to `end` into a binary array."""
    sizes = end - begin
    ends = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    content = data[np.repeat(begin - ends[:-1], sizes) + np.arange(ends[-1])]
    buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(content)]
    return pa.BinaryArray.from_buffers(pa.binary(), len(sizes), buffers)


def pick(values: pa.Array, places: Array) -> pa.Array:
    """Return the values at these indices; null for -1."""
    return values.take(pa.array(places, mask=places < 0))


def texts(raw: pa.BinaryArray) -> pa.StringArray:
    """Decode bytes as UTF-8; invalid bytes are replaced."""
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        encoded = raw.dictionary_encode()
        decoded = [each.decode("utf-8", "replace") for each in encoded.dictionary.to_pylist()]
        return pa.array(decoded, pa.string()).take(encoded.indices)
