"""Ranges of bytes, many at once: numbers, texts and arrays of Arrow made of them.

`data` is an array of bytes, places in it are arrays of integers, and all is done by numpy and Arrow
for all places together.
"""

import numpy as np
import pyarrow as pa

from headrace.arrow.read.c_data import Array


def ranges_of(values: pa.BinaryArray, beyond: int) -> tuple[Array, Array, Array]:
    """Return the bytes of all values, `beyond` zeros behind them, and where each begins and ends.

    With these zeros who looks so many bytes behind a value's end looks at memory that is there.
    `values` is no slice.
    """
    _, ends, data = values.buffers()
    bounds = np.frombuffer(ends, np.int32)[: len(values) + 1].astype(np.int64)
    content = np.frombuffer(data or b"", np.uint8)
    return np.concatenate([content, np.zeros(beyond, np.uint8)]), bounds[:-1], bounds[1:]


def numbers(data: Array, places: Array, size: int) -> Array:
    """Return the unsigned numbers of so many bytes, a power of two, that begin at these places."""
    found: Array = data[places[:, None] + np.arange(size)].view(f">u{size}")[:, 0]
    return found


def cut(data: Array, begin: Array, end: Array) -> pa.BinaryArray:
    """Return what is from each of the places in `begin` to its place in `end`, copied."""
    sizes = end - begin
    ends = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    content = data[np.repeat(begin - ends[:-1], sizes) + np.arange(ends[-1])]
    buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(content)]
    return pa.BinaryArray.from_buffers(pa.binary(), len(sizes), buffers)


def pick(values: pa.Array, places: Array) -> pa.Array:
    """Return the values at these places, null where a place is -1."""
    return values.take(pa.array(places, mask=places < 0))


def texts(raw: pa.BinaryArray) -> pa.StringArray:
    """Return bytes as texts; what is no UTF-8 in them is replaced."""
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        encoded = raw.dictionary_encode()
        decoded = [each.decode("utf-8", "replace") for each in encoded.dictionary.to_pylist()]
        return pa.array(decoded, pa.string()).take(encoded.indices)
