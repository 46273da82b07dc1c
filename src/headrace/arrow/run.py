"""Many batches in one call: the kernel that walks a chunk of whole batches without Python.

Takes what most logs are full of: batches without transactions, uncompressed or lz4 frames of plain
blocks. Anything else, and anything that looks wrong, is left to `PartitionDecoder`, batch by batch,
whose word on errors and limits is final: so this kernel says no more than "not mine".
"""

# ruff: noqa: ANN001, ANN201, ANN202
# mypy: ignore-errors
# Types here are numba's, inferred from the arrays handed in; Python annotations would say nothing.

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from headrace.arrow.kernel import decode
from headrace.arrow.layout import Lane, Outcome, Run, Slot
from headrace.wire.checksum import crc32c

AT, EXPECTED, LIMIT, NEEDED = int(Run.AT), int(Run.EXPECTED), int(Run.LIMIT), int(Run.NEEDED)
TIME_TYPE, IN_SCRATCH, LZ4 = int(Run.TIME_TYPE), int(Run.IN_SCRATCH), int(Run.LZ4)
ATTRIBUTES = int(Run.ATTRIBUTES)
MORE, OTHER, LANE_FULL = int(Lane.MORE), int(Lane.OTHER), int(Lane.FULL)
POSITION, END, RECORDS_LEFT = int(Slot.POSITION), int(Slot.END), int(Slot.RECORDS_LEFT)
BASE_OFFSET, LAST_DELTA = int(Slot.BASE_OFFSET), int(Slot.LAST_DELTA)
PREVIOUS_DELTA, BASE_TIME_MS = int(Slot.PREVIOUS_DELTA), int(Slot.BASE_TIME_MS)
FIXED_TIME, OFFSET_FROM = int(Slot.FIXED_TIME), int(Slot.OFFSET_FROM)
OFFSET_UNTIL = int(Slot.OFFSET_UNTIL)
DONE, FULL = int(Outcome.DONE), int(Outcome.FULL)

HEADER_BYTES, OVERHEAD_BYTES, CRC_FROM, MAGIC = 61, 12, 21, 2
CODEC_MASK, LZ4_CODEC, LOG_APPEND_TIME = 0x07, 3, 0x08
LZ4_MAGIC = 0x184D2204
LZ4_VERSION = 0b0100_0000
LZ4_SIZE_FLAG = 0b0000_1000
LZ4_UNUSUAL_FLAGS = 0b0001_0111  # block checksums, content checksum, reserved, dictionary
LZ4_STORED = 0x8000_0000
LZ4_WINDOW = 65_536


@intrinsic
def _crc32c_word(typing_context, crc, source, at):
    """Go on with a CRC32C over the eight bytes at `at`."""

    def generate(context, builder, signature, values):
        value, array, position = values
        word, pointed = _word_at(context, builder, signature.args[1], array, position)
        kind = ir.FunctionType(word, [word, word])
        function = builder.module.declare_intrinsic("llvm.x86.sse42.crc32.64.64", (), kind)
        return builder.call(function, [value, pointed])

    return types.uint64(types.uint64, source, at), generate


def _word_at(context, builder, kind, array, position):
    word = ir.IntType(64)
    data = context.make_array(kind)(context, builder, array).data
    place = builder.bitcast(builder.gep(data, [position]), word.as_pointer())
    loaded = builder.load(place)
    loaded.align = 1
    return word, loaded


@intrinsic
def _crc32c_byte(typing_context, crc, byte):
    """Go on with a CRC32C over one byte."""

    def generate(context, builder, signature, values):
        word, byte_type = ir.IntType(32), ir.IntType(8)
        kind = ir.FunctionType(word, [word, byte_type])
        function = builder.module.declare_intrinsic("llvm.x86.sse42.crc32.32.8", (), kind)
        return builder.call(function, [values[0], values[1]])

    return types.uint32(types.uint32, types.uint8), generate


@intrinsic
def _call_lz4(typing_context, address, src, src_at, size, dst, dst_at, room, dictionary):
    """liblz4's LZ4_decompress_safe_usingDict, the dictionary right before `dst_at`."""

    def generate(context, builder, signature, values):
        function, source, source_at, count, target, target_at, capacity, window = values
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        out_of = context.make_array(signature.args[1])(context, builder, source).data
        into = context.make_array(signature.args[4])(context, builder, target).data
        begin = builder.gep(into, [target_at])
        before = builder.gep(into, [builder.sub(target_at, window)])
        kind = ir.FunctionType(number, [byte, byte, number, number, byte, number])
        callee = builder.inttoptr(function, kind.as_pointer())
        arguments = [
            builder.gep(out_of, [source_at]), begin, builder.trunc(count, number),
            builder.trunc(capacity, number), before, builder.trunc(window, number),
        ]  # fmt: skip
        return builder.sext(builder.call(callee, arguments), ir.IntType(64))

    signature = types.int64(
        types.int64, src, types.int64, types.int64, dst, types.int64, types.int64, types.int64
    )
    return signature, generate


def _behind_zeros(state):
    """The CRC's state after CRC_BLOCK zero bytes more: how parts are put together."""
    return crc32c(bytes(CRC_BLOCK), state ^ 0xFFFF_FFFF) ^ 0xFFFF_FFFF


CRC_BLOCK = 512
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
def _crc32c(src, at, end):
    """CRC32C, three blocks side by side: one instruction waits three cycles for the last."""
    crc = np.uint64(0xFFFF_FFFF)
    while end - at >= 3 * CRC_BLOCK:
        second, third = np.uint64(0), np.uint64(0)
        for place in range(at, at + CRC_BLOCK, 8):
            crc = _crc32c_word(crc, src, place)
            second = _crc32c_word(second, src, place + CRC_BLOCK)
            third = _crc32c_word(third, src, place + 2 * CRC_BLOCK)
        crc = _shifted(_shifted(crc) ^ second) ^ third
        at += 3 * CRC_BLOCK
    while at + 8 <= end:
        crc = _crc32c_word(crc, src, at)
        at += 8
    rest = np.uint32(crc)
    while at < end:
        rest = _crc32c_byte(rest, src[at])
        at += 1
    return np.int64(rest ^ np.uint32(0xFFFF_FFFF))


@njit(inline="always")
def _big(src, at, size):
    """An unsigned big-endian integer; eight bytes make a signed one."""
    value = np.int64(0)
    for place in range(size):
        value = (value << 8) | np.int64(src[at + place])
    return value


@njit(inline="always")
def _big32(src, at):
    """A signed big-endian int32."""
    return np.int64(np.int32(_big(src, at, 4)))


@njit(inline="always")
def _little32(src, at):
    return (
        np.int64(src[at]) | np.int64(src[at + 1]) << 8
        | np.int64(src[at + 2]) << 16 | np.int64(src[at + 3]) << 24
    )  # fmt: skip


@njit(inline="always")
def _unfold_lz4(address, src, at, end, scratch):
    """Unfold one lz4 frame into `scratch`: bytes there, -1 where it is for others to say."""
    if end - at < 11 or _little32(src, at) != LZ4_MAGIC:
        return np.int64(-1)
    flags = np.int64(src[at + 4])
    if flags & (0b1100_0000 | LZ4_UNUSUAL_FLAGS) != LZ4_VERSION:
        return np.int64(-1)
    at += 7 + (8 if flags & LZ4_SIZE_FLAG else 0)
    done = np.int64(0)
    while True:
        if end - at < 4:
            return np.int64(-1)
        size = _little32(src, at)
        at += 4
        if size == 0:
            break
        stored = size & LZ4_STORED != 0
        size &= LZ4_STORED - 1
        if stored or size > end - at:
            return np.int64(-1)  # blocks that did not compress are rare: others copy them
        window = min(done, LZ4_WINDOW)
        got = _call_lz4(address, src, at, size, scratch, done, scratch.shape[0] - done, window)
        if got < 0:
            return np.int64(-1)
        done += got
        at += size
    return done if at == end else np.int64(-1)


@njit(inline="always")
def _begin(src, at, state, fixed, needed):
    """Set in `state` what `decode` asks of a batch, save where its records lie."""
    state[RECORDS_LEFT], state[BASE_OFFSET] = _big32(src, at + 57), _big(src, at, 8)
    state[LAST_DELTA], state[PREVIOUS_DELTA] = _big32(src, at + 23), -1
    state[FIXED_TIME], state[OFFSET_FROM] = 1 if fixed else 0, needed
    state[BASE_TIME_MS] = _big(src, at + (35 if fixed else 27), 8)


@njit(cache=True, nogil=True, boundscheck=False, _nrt=False)
def decode_run(
    src, run, scratch, state, offsets, micros, key_ends, keys, key_valid, value_ends, values,
    value_valid, list_ends, list_valid, header_key_ends, header_keys, header_value_ends,
    header_values, header_value_valid,
):  # fmt: skip
    """Walk the batches of `src` from AT on, while they are of the plain kind; returns a `Lane`.

    `src`, the outs: as for `kernel.decode`. `scratch`: uint8, where batches unfold; read-only like
    `src` to numba, so that one compiled `decode` serves both. `run` is moved on behind each batch
    that is done. FULL: `state` stands within a batch, which is behind AT
    already and lies in `scratch` if IN_SCRATCH, else in `src`.
    """
    at, expected, limit = run[AT], run[EXPECTED], run[LIMIT]
    needed, until, address = run[NEEDED], state[OFFSET_UNTIL], run[LZ4]
    time_type, understood = run[TIME_TYPE], run[ATTRIBUTES]
    end = src.shape[0]
    lane = MORE
    while end - at >= HEADER_BYTES and needed < until:
        base, length = _big(src, at, 8), _big32(src, at + 8)
        lane = OTHER
        after = at + OVERHEAD_BYTES + length
        if src[at + 16] != MAGIC or length < HEADER_BYTES - OVERHEAD_BYTES:
            break
        if after > end:
            lane = MORE
            break
        attributes, last_delta = _big(src, at + 21, 2), _big32(src, at + 23)
        codec, count = attributes & CODEC_MASK, _big32(src, at + 57)
        following = base + last_delta + 1
        if (
            attributes & ~understood
            or attributes & LOG_APPEND_TIME != time_type
            or (codec != 0 and (codec != LZ4_CODEC or address == 0))
            or count <= 0
            or last_delta < 0
            or base < expected
            or base >= until
            or following > limit
            or following <= needed
            or _crc32c(src, at + CRC_FROM, after) != _big(src, at + 17, 4)
        ):
            break
        _begin(src, at, state, time_type != 0, needed)
        if codec == 0:
            state[POSITION], state[END] = at + HEADER_BYTES, after
            outcome = decode(
                src, state, offsets, micros, key_ends, keys, key_valid, value_ends, values,
                value_valid, list_ends, list_valid, header_key_ends, header_keys,
                header_value_ends, header_values, header_value_valid,
            )  # fmt: skip
        else:
            size = _unfold_lz4(address, src, at + HEADER_BYTES, after, scratch)
            if size < 0:
                break
            state[POSITION], state[END] = 0, size
            outcome = decode(
                scratch, state, offsets, micros, key_ends, keys, key_valid, value_ends, values,
                value_valid, list_ends, list_valid, header_key_ends, header_keys,
                header_value_ends, header_values, header_value_valid,
            )  # fmt: skip
        if outcome < 0:
            break
        at, expected, needed = after, following, following
        lane = MORE
        if outcome == FULL:
            run[IN_SCRATCH] = 1 if codec else 0
            lane = LANE_FULL
            break
    run[AT], run[EXPECTED], run[NEEDED] = at, expected, needed
    return lane
