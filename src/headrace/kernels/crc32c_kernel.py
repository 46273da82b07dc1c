"""CRC32C as a numba kernel, inlined into the loop over batches: no call, no objects.

If the CPU has 512-bit carry-less multiplication, a batch is folded: 256 bytes at a time onto the
next 256, until the remainder has the checksum of the whole. Otherwise three parts are computed in
parallel, as each crc32 instruction waits three cycles for the previous one.
"""

# ruff: noqa: ANN001, ANN201, ANN202
# mypy: ignore-errors
# Types here are numba's, inferred from the arrays handed in; Python annotations would say nothing.

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from headrace.kernels.memory import address_of, load_8, load_64
from headrace.record.crc32c import crc32c as library_crc32c

POLYNOMIAL = 0x1EDC_6F41
LANE_BYTES, LANES = 64, 4
FOLD_BYTES = LANE_BYTES * LANES
PART_BYTES = 512
_ALL_ONES = 0xFFFF_FFFF


@intrinsic
def _crc32c_long(typing_context, crc, number):
    """Update a CRC32C with the eight bytes of `number`."""

    def generate(context, builder, signature, values):
        return _long_instruction(builder, *values)

    return types.uint64(types.uint64, types.int64), generate


def _long_instruction(builder, crc, number):
    word = ir.IntType(64)
    kind = ir.FunctionType(word, [word, word])
    function = builder.module.declare_intrinsic("llvm.x86.sse42.crc32.64.64", (), kind)
    return builder.call(function, [crc, number])


@intrinsic
def _crc32c_byte(typing_context, crc, byte):
    """Update a CRC32C with one byte."""

    def generate(context, builder, signature, values):
        word, byte_type = ir.IntType(32), ir.IntType(8)
        kind = ir.FunctionType(word, [word, byte_type])
        function = builder.module.declare_intrinsic("llvm.x86.sse42.crc32.32.8", (), kind)
        return builder.call(function, [values[0], values[1]])

    return types.uint32(types.uint32, types.uint8), generate


def _power(exponent):
    """Return x ** `exponent` modulo the polynomial, bit-reflected and shifted left by one.

    Folding multiplies by these constants.
    """
    rest = 1
    for _ in range(exponent):
        rest <<= 1
        if rest >> 32:
            rest ^= 1 << 32 | POLYNOMIAL
    return int(f"{rest:032b}"[::-1], 2) << 1


def _factors(distance):
    """Return the folding constants for a distance in bytes, for each 128 bits of a vector."""
    bits = 8 * distance
    return [_power(bits + 32), _power(bits - 32)] * (LANE_BYTES // 16)


_FAR, _NEXT = _factors(FOLD_BYTES), _factors(LANE_BYTES)
_VECTOR = ir.VectorType(ir.IntType(64), LANE_BYTES // 8)


def _onto(builder, folded, factors, other):
    """Fold `folded` forward by the distance of `factors`, onto `other` at that position."""
    half = ir.IntType(8)
    kind = ir.FunctionType(_VECTOR, [_VECTOR, _VECTOR, half])
    multiply = builder.module.declare_intrinsic("llvm.x86.pclmulqdq.512", (), kind)
    by = ir.Constant(_VECTOR, factors)
    low = builder.call(multiply, [folded, by, ir.Constant(half, 0x00)])
    high = builder.call(multiply, [folded, by, ir.Constant(half, 0x11)])
    return builder.xor(builder.xor(low, high), other)


@intrinsic
def _folded(typing_context, crc, address, count):
    """Update a CRC32C with `count` (at least 1) times FOLD_BYTES at `address`."""

    def generate(context, builder, signature, values):
        crc, address, count = values
        word = ir.IntType(64)

        def lane(block, number):
            place = ir.Constant(word, number * LANE_BYTES)
            place = builder.add(builder.add(address, place), block)
            place = builder.inttoptr(place, _VECTOR.as_pointer())
            loaded = builder.load(place)
            loaded.align = 1
            return loaded

        nothing = ir.Constant(word, 0)
        lanes = [lane(nothing, number) for number in range(LANES)]
        first = builder.insert_element(
            ir.Constant(_VECTOR, [0] * _VECTOR.count), crc, ir.Constant(ir.IntType(32), 0)
        )
        lanes[0] = builder.xor(lanes[0], first)
        slots = [cgutils.alloca_once_value(builder, vector) for vector in lanes]
        with cgutils.for_range(builder, count, start=ir.Constant(word, 1)) as loop:
            block = builder.mul(loop.index, ir.Constant(word, FOLD_BYTES))
            for number, slot in enumerate(slots):
                there = lane(block, number)
                builder.store(_onto(builder, builder.load(slot), _FAR, there), slot)
        rest = builder.load(slots[0])
        for slot in slots[1:]:
            rest = _onto(builder, rest, _NEXT, builder.load(slot))
        crc = nothing
        for place in range(_VECTOR.count):
            number = builder.extract_element(rest, ir.Constant(ir.IntType(32), place))
            crc = _long_instruction(builder, crc, number)
        return crc

    return types.uint64(types.uint64, types.int64, types.int64), generate


def _behind_zeros(state):
    """Return the CRC state after PART_BYTES zero bytes: it combines the parts' states."""
    return library_crc32c(bytes(PART_BYTES), state ^ _ALL_ONES) ^ _ALL_ONES


_SHIFTS = np.array(
    [[_behind_zeros(byte << shift) for byte in range(256)] for shift in (0, 8, 16, 24)], np.uint64
)


@njit(inline="always")
def _shifted(crc):
    return (
        _SHIFTS[0, crc & np.uint64(0xFF)]
        ^ _SHIFTS[1, (crc >> np.uint64(8)) & np.uint64(0xFF)]
        ^ _SHIFTS[2, (crc >> np.uint64(16)) & np.uint64(0xFF)]
        ^ _SHIFTS[3, (crc >> np.uint64(24)) & np.uint64(0xFF)]
    )


@njit(inline="always")
def _by_parts(crc, at, end):
    """Process as many groups of three parts as possible: return (state, position)."""
    while end - at >= 3 * PART_BYTES:
        second, third = np.uint64(0), np.uint64(0)
        for place in range(at, at + PART_BYTES, 8):
            crc = _crc32c_long(crc, load_64(place))
            second = _crc32c_long(second, load_64(place + PART_BYTES))
            third = _crc32c_long(third, load_64(place + 2 * PART_BYTES))
        crc = _shifted(_shifted(crc) ^ second) ^ third
        at += 3 * PART_BYTES
    return crc, at


@njit(inline="always")
def _by_folding(crc, at, end):
    """Add whole blocks of FOLD_BYTES to the CRC; return (CRC state, address behind them)."""
    count = (end - at) // FOLD_BYTES
    if count > 0:
        crc = _folded(crc, at, count)
        at += count * FOLD_BYTES
    return crc, at


def folds():
    """Return whether the CPU has the instructions of `_folded`."""
    features = llvm.get_host_cpu_features()
    return bool(features.get("avx512f") and features.get("vpclmulqdq"))


_most = _by_folding if folds() else _by_parts


@njit(boundscheck=False, _nrt=False)
def crc32c(src, at, end):
    """Return the CRC32C of src[at:end], for an array of uint8."""
    first = address_of(src)
    crc, at = _most(np.uint64(_ALL_ONES), first + at, first + end)
    end += first
    while at + 8 <= end:
        crc = _crc32c_long(crc, load_64(at))
        at += 8
    rest = np.uint32(crc)
    while at < end:
        rest = _crc32c_byte(rest, np.uint8(load_8(at)))
        at += 1
    return np.int64(rest ^ np.uint32(_ALL_ONES))
