"""Raw memory access for compiled code: load, store and copy without bounds checks.

numba's own indexing tests each index for being negative, which costs a decoder time at every byte.
Callers must have checked all bounds. Numbers are little-endian.

A place is either an array with a position, or an address. Loops dominated by loads and stores use
addresses: one register and one addition less per array.
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
WIDE_STRIDE = 64


def _pointer(context, builder, kind, array, at):
    return builder.gep(context.make_array(kind)(context, builder, array).data, [at])


def _load_from(builder, pointer, number):
    loaded = builder.load(builder.bitcast(pointer, number.as_pointer()))
    loaded.align = 1
    return loaded


def _load(context, builder, kind, array, at, number):
    return _load_from(builder, _pointer(context, builder, kind, array, at), number)


def _at_address(builder, address):
    return builder.inttoptr(address, ir.IntType(8).as_pointer())


def _widened(builder, number, bits):
    return number if bits == 64 else builder.zext(number, ir.IntType(64))


def _reader(bits):
    @intrinsic
    def read(typing_context, source, at):
        def generate(context, builder, signature, values):
            number = _load(context, builder, signature.args[0], *values, ir.IntType(bits))
            return _widened(builder, number, bits)

        return types.int64(source, types.int64), generate

    return read


byte_at, short_at, word_at, long_at = _reader(8), _reader(16), _reader(32), _reader(64)
"""Read an unsigned (64 bits: signed) number from a uint8 array at a byte position."""


def _loader(bits):
    @intrinsic
    def load(typing_context, address):
        def generate(context, builder, signature, values):
            pointer = _at_address(builder, values[0])
            return _widened(builder, _load_from(builder, pointer, ir.IntType(bits)), bits)

        return types.int64(types.int64), generate

    return load


load_8, load_16, load_64 = _loader(8), _loader(16), _loader(64)
"""Read an unsigned (64 bits: signed) number at an address."""


def _storer(bits):
    @intrinsic
    def store(typing_context, address, number):
        def generate(context, builder, signature, values):
            kind = ir.IntType(bits)
            number = values[1] if bits == 64 else builder.trunc(values[1], kind)
            place = builder.bitcast(_at_address(builder, values[0]), kind.as_pointer())
            builder.store(number, place).align = 1
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return store


store_32, store_64 = _storer(32), _storer(64)
"""Write the low bits of a number at an address."""


@intrinsic
def address_of(typing_context, array):
    """Return the address of an array's first element. The caller must keep the array alive."""

    def generate(context, builder, signature, values):
        data = context.make_array(signature.args[0])(context, builder, values[0]).data
        return builder.ptrtoint(data, ir.IntType(64))

    return types.int64(array), generate


@intrinsic
def put(typing_context, target, at, value):
    """Set target[at] = value, for arrays of integers."""

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
    """Copy `size` bytes by memcpy.

    Numba's slice assignment was measured at a fifth of its speed.
    """

    def generate(context, builder, signature, values):
        into, into_at, out_of, out_of_at, count = values
        into = _pointer(context, builder, signature.args[0], into, into_at)
        out_of = _pointer(context, builder, signature.args[2], out_of, out_of_at)
        cgutils.raw_memcpy(builder, into, out_of, count, 1)
        return context.get_dummy_value()

    return types.void(target, target_at, source, source_at, size), generate


@intrinsic
def move(typing_context, into, out_of, size):
    """Copy `size` bytes between addresses by memcpy."""

    def generate(context, builder, signature, values):
        into, out_of, count = values
        into, out_of = _at_address(builder, into), _at_address(builder, out_of)
        cgutils.raw_memcpy(builder, into, out_of, count, 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


def _store_vector(builder, pointer, vector):
    builder.store(vector, builder.bitcast(pointer, vector.type.as_pointer())).align = 1


def _copier(size):
    vector = ir.VectorType(ir.IntType(64), size // 8)

    @intrinsic
    def copy_so_many(typing_context, target, target_at, source, source_at):
        def generate(context, builder, signature, values):
            into, into_at, out_of, out_of_at = values
            loaded = _load(context, builder, signature.args[2], out_of, out_of_at, vector)
            into = _pointer(context, builder, signature.args[0], into, into_at)
            _store_vector(builder, into, loaded)
            return context.get_dummy_value()

        return types.void(target, types.int64, source, types.int64), generate

    return copy_so_many


copy_32 = _copier(STRIDE)
"""Copy 32 bytes between arrays; all are read before any is written."""


def _mover(size):
    vector = ir.VectorType(ir.IntType(64), size // 8)

    @intrinsic
    def move_so_many(typing_context, into, out_of):
        def generate(context, builder, signature, values):
            into, out_of = (_at_address(builder, value) for value in values)
            _store_vector(builder, into, _load_from(builder, out_of, vector))
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return move_so_many


move_16, move_32, move_64 = _mover(16), _mover(STRIDE), _mover(WIDE_STRIDE)
"""Copy a fixed number of bytes between addresses; all are read before any is written."""


@njit(inline="always")
def copy_short(target, target_at, source, source_at, size):
    """Copy `size` bytes like `copy`. Short copies use fixed strides if there is room to read and
    write beyond them, which is faster than calling memcpy; bytes of `target` after the copy are
    overwritten, as they hold no data yet."""
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


@njit(inline="always")
def clear_bit(bitmap, row):
    """Mark `row` as null in an Arrow validity bitmap."""
    bitmap[row >> 3] &= np.uint8(~(1 << (row & 7)) & 0xFF)
