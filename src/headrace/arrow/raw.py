"""Memory as compiled code finds it: bytes read, written and copied without a look at any bound.

numba's own indexing asks of each index whether it is negative, which a decoder pays for at every
byte. Whoever calls these has made sure that what is touched is there. Numbers are little-endian.
"""

# ruff: noqa: ANN001, ANN201, ANN202
# mypy: ignore-errors
# Types here are numba's, inferred from the arrays handed in; Python annotations would say nothing.

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

STRIDE, SHORT_BYTES = 32, 512


def _pointer(context, builder, kind, array, at):
    return builder.gep(context.make_array(kind)(context, builder, array).data, [at])


def _load(context, builder, kind, array, at, number):
    place = builder.bitcast(_pointer(context, builder, kind, array, at), number.as_pointer())
    loaded = builder.load(place)
    loaded.align = 1
    return loaded


def _reader(bits):
    @intrinsic
    def read(typing_context, source, at):
        def generate(context, builder, signature, values):
            number = _load(context, builder, signature.args[0], *values, ir.IntType(bits))
            return number if bits == 64 else builder.zext(number, ir.IntType(64))

        return types.int64(source, types.int64), generate

    return read


byte_at, short_at, word_at, long_at = _reader(8), _reader(16), _reader(32), _reader(64)
"""Unsigned (of 64 bits: signed) numbers of a uint8 array, at a byte's position."""


@intrinsic
def put(typing_context, target, at, value):
    """target[at] = value, for arrays of integers."""

    def generate(context, builder, signature, values):
        array, position, number = values
        kind = signature.args[0]
        if kind.dtype.bitwidth < 64:
            number = builder.trunc(number, ir.IntType(kind.dtype.bitwidth))
        builder.store(number, _pointer(context, builder, kind, array, position))
        return context.get_dummy_value()

    return types.void(target, types.int64, types.int64), generate


@intrinsic
def copy(typing_context, target, target_at, source, source_at, size):
    """memcpy of `size` bytes. Numba's slice assignment was measured at a fifth of its speed."""

    def generate(context, builder, signature, values):
        into, into_at, out_of, out_of_at, count = values
        into = _pointer(context, builder, signature.args[0], into, into_at)
        out_of = _pointer(context, builder, signature.args[2], out_of, out_of_at)
        cgutils.raw_memcpy(builder, into, out_of, count, 1)
        return context.get_dummy_value()

    return types.void(target, target_at, source, source_at, size), generate


def _copier(size):
    @intrinsic
    def copy_so_many(typing_context, target, target_at, source, source_at):
        def generate(context, builder, signature, values):
            into, into_at, out_of, out_of_at = values
            vector = ir.VectorType(ir.IntType(64), size // 8)
            loaded = _load(context, builder, signature.args[2], out_of, out_of_at, vector)
            into = _pointer(context, builder, signature.args[0], into, into_at)
            stored = builder.store(loaded, builder.bitcast(into, vector.as_pointer()))
            stored.align = 1
            return context.get_dummy_value()

        return types.void(target, types.int64, source, types.int64), generate

    return copy_so_many


copy_16, copy_32 = _copier(16), _copier(STRIDE)
"""So many bytes, wherever they lie, read before any is written."""


@njit(inline="always")
def copy_short(target, target_at, source, source_at, size):
    """As `copy`. What is short goes in strides, where there is room to read and write beyond it:
    that takes less than the call of memcpy, and what follows it in `target` is not written yet."""
    if (
        size <= SHORT_BYTES
        and size + STRIDE <= source.shape[0] - source_at
        and size + STRIDE <= target.shape[0] - target_at
    ):
        done = np.int64(0)
        while done < size:
            copy_32(target, target_at + done, source, source_at + done)
            done += STRIDE
    else:
        copy(target, target_at, source, source_at, size)
