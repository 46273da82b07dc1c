"""Loads and stores of the JSON kernel, and the machine instructions that numba does not offer.

Positions are bytes in a uint8 array. With NUMBA_BOUNDSCHECK=1 each access is checked and raises
IndexError: the kernel's own bounds are then proven by every test that runs it.
"""

# ruff: noqa: ANN001, ANN201, ANN202
# mypy: ignore-errors
# Types here are numba's, inferred from the arrays handed in; Python annotations would say nothing.

import ctypes
import os

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from headrace.kernels.memory import address_of, byte_at, copy_32, long_at

compiled = njit(boundscheck=False, error_model="numpy", _nrt=False)
"""Decorate a part of the kernel. LLVM inlines small ones; numba's own inlining took a minute."""
inlined = njit(boundscheck=False, error_model="numpy", _nrt=False, forceinline=True)
"""Decorate a part that LLVM would call: a call passes each array as seven arguments."""
CHECKED = os.environ.get("NUMBA_BOUNDSCHECK") == "1"
STRIDE = 32

_PARSE = "headrace_string_to_double"
_I8, _I64, _I128 = ir.IntType(8), ir.IntType(64), ir.IntType(128)

# Python's own conversion, by a name of ours so that cached code finds it in each process.
llvm.add_symbol(
    _PARSE, ctypes.cast(ctypes.pythonapi.PyOS_string_to_double, ctypes.c_void_p).value or 0
)


@compiled
def _check(array, at, size):
    if CHECKED and (at < 0 or at + size > array.shape[0]):
        raise IndexError("the JSON kernel left its buffer")


@intrinsic
def _store_64(typing_context, target, at, value):
    def generate(context, builder, signature, values):
        array, position, number = values
        data = context.make_array(signature.args[0])(context, builder, array).data
        place = builder.bitcast(builder.gep(data, [position]), _I64.as_pointer())
        builder.store(number, place).align = 1
        return context.get_dummy_value()

    return types.void(target, types.int64, types.int64), generate


@intrinsic
def _store_8(typing_context, target, at, value):
    def generate(context, builder, signature, values):
        array, position, number = values
        data = context.make_array(signature.args[0])(context, builder, array).data
        builder.store(builder.trunc(number, _I8), builder.gep(data, [position]))
        return context.get_dummy_value()

    return types.void(target, types.int64, types.int64), generate


@intrinsic
def _special_32(typing_context, source, at):
    """Mark, among 32 bytes, quotes, backslashes, control characters and bytes beyond ASCII."""

    def generate(context, builder, signature, values):
        array, position = values
        data = context.make_array(signature.args[0])(context, builder, array).data
        vector = ir.VectorType(_I8, 32)
        loaded = builder.load(builder.bitcast(builder.gep(data, [position]), vector.as_pointer()))
        loaded.align = 1

        def filled(byte):
            return ir.Constant(vector, [ir.Constant(_I8, byte)] * 32)

        # Signed, so that bytes from 0x80 on are below the space as control characters are.
        marks = builder.icmp_signed("<", loaded, filled(0x20))
        for byte in (0x22, 0x5C):
            marks = builder.or_(marks, builder.icmp_signed("==", loaded, filled(byte)))
        return builder.zext(builder.bitcast(marks, ir.IntType(32)), _I64)

    return types.int64(source, types.int64), generate


@intrinsic
def _trailing_zeros(typing_context, number):
    def generate(context, builder, signature, values):
        return builder.cttz(values[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.int64), generate


@intrinsic
def leading_zeros(typing_context, number):
    """Count the zero bits above the highest set one."""

    def generate(context, builder, signature, values):
        return builder.ctlz(values[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


@intrinsic
def multiply_high(typing_context, left, right):
    """Return the upper 64 bits of the 128-bit product."""

    def generate(context, builder, signature, values):
        wide = [builder.zext(value, _I128) for value in values]
        product = builder.lshr(builder.mul(*wide), ir.Constant(_I128, 64))
        return builder.trunc(product, _I64)

    return types.uint64(types.uint64, types.uint64), generate


@intrinsic
def bits_of_double(typing_context, number):
    """Return a double's bits."""

    def generate(context, builder, signature, values):
        return builder.bitcast(values[0], _I64)

    return types.int64(types.float64), generate


@intrinsic
def double_of_bits(typing_context, bits):
    """Return the double that has these bits."""

    def generate(context, builder, signature, values):
        return builder.bitcast(values[0], ir.DoubleType())

    return types.float64(types.int64), generate


@intrinsic
def bits_of_float(typing_context, number):
    """Return the bits of the nearest float of a double."""

    def generate(context, builder, signature, values):
        narrow = builder.fptrunc(values[0], ir.FloatType())
        return builder.zext(builder.bitcast(narrow, ir.IntType(32)), _I64)

    return types.int64(types.float64), generate


@intrinsic
def _parse_at(typing_context, address):
    def generate(context, builder, signature, values):
        pointer = _I8.as_pointer()
        kind = ir.FunctionType(ir.DoubleType(), [pointer, pointer.as_pointer(), pointer])
        function = builder.module.globals.get(_PARSE) or ir.Function(builder.module, kind, _PARSE)
        end = builder.alloca(pointer)
        nothing = ir.Constant(pointer, None)
        return builder.call(function, [builder.inttoptr(values[0], pointer), end, nothing])

    return types.float64(types.int64), generate


@compiled
def parse_double(source, at):
    """Return Python's `float` of the valid number at `at`; ±inf beyond its range. Needs the GIL,
    and a byte after the number that cannot belong to it."""
    _check(source, at, 1)
    return _parse_at(address_of(source) + at)


@compiled
def load_8(source, at):
    """Return the byte at `at`."""
    _check(source, at, 1)
    return byte_at(source, at)


@compiled
def load_64(source, at):
    """Return eight bytes as a signed number."""
    _check(source, at, 8)
    return long_at(source, at)


@compiled
def store_8(target, at, value):
    """Write the low byte of `value`."""
    _check(target, at, 1)
    _store_8(target, at, np.int64(value))


@compiled
def store_64(target, at, value):
    """Write a number of eight bytes. A narrower element's slot is written so, too: its neighbour's
    bytes are written later, as slots are filled in ascending order."""
    _check(target, at, 8)
    _store_64(target, at, np.int64(value))


@compiled
def move_32(target, target_at, source, source_at):
    """Copy 32 bytes."""
    _check(target, target_at, STRIDE)
    _check(source, source_at, STRIDE)
    copy_32(target, target_at, source, source_at)


@compiled
def special_32(source, at):
    """Return a bit for each of 32 bytes: set for quotes, backslashes, control characters and bytes
    beyond ASCII."""
    _check(source, at, STRIDE)
    return _special_32(source, at)


@compiled
def lowest_bit(bits):
    """Return the number of the lowest set bit; 64 if none is set."""
    return _trailing_zeros(bits)
