"""Kernel that decodes many plain batches in one call, without Python between batches.

Plain batches, of which most logs consist, have no transactions, and are uncompressed or LZ4 frames
of plain blocks. Any other batch, and any invalid one, is left to `PartitionDecoder`, which decodes
batch by batch and decides about errors and limits: so this kernel reports no errors, only "not
plain".
"""

# ruff: noqa: ANN001, ANN201, ANN202
# mypy: ignore-errors
# Types here are numba's, inferred from the arrays handed in; Python annotations would say nothing.

import numpy as np
from numba import njit

from headrace.kernels.crc32c_kernel import crc32c
from headrace.kernels.decode_numba import decode_records
from headrace.kernels.layout import ChunkOutcome, ChunkSlot, Outcome, Slot
from headrace.kernels.lz4_kernel import decompress_block, decompress_two_blocks
from headrace.kernels.memory import byte_at, word_at
from headrace.record.batch_layout import (
    ATTRIBUTES_AT,
    BASE_TIMESTAMP_AT,
    BATCH_LENGTH_AT,
    CRC_AT,
    CRC_FROM,
    HEADER_BYTES,
    LAST_OFFSET_DELTA_AT,
    LENGTH_MIN,
    MAGIC,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    OVERHEAD_BYTES,
    RECORD_COUNT_AT,
)

AT, EXPECTED, LIMIT, NEEDED = (
    int(ChunkSlot.AT),
    int(ChunkSlot.EXPECTED),
    int(ChunkSlot.LIMIT),
    int(ChunkSlot.NEEDED),
)
TIME_TYPE, IN_SCRATCH = int(ChunkSlot.TIME_TYPE), int(ChunkSlot.IN_SCRATCH)
ATTRIBUTES = int(ChunkSlot.ATTRIBUTES)
EXHAUSTED, NOT_PLAIN, CHUNK_FULL = (
    int(ChunkOutcome.EXHAUSTED),
    int(ChunkOutcome.NOT_PLAIN),
    int(ChunkOutcome.FULL),
)
TAKE = 3  # In addition to ChunkOutcome: the batch is plain.
POSITION, END, RECORDS_LEFT = int(Slot.POSITION), int(Slot.END), int(Slot.RECORDS_LEFT)
BASE_OFFSET, LAST_DELTA = int(Slot.BASE_OFFSET), int(Slot.LAST_DELTA)
PREVIOUS_DELTA, BASE_TIME_MS = int(Slot.PREVIOUS_DELTA), int(Slot.BASE_TIME_MS)
FIXED_TIME, OFFSET_FROM = int(Slot.FIXED_TIME), int(Slot.OFFSET_FROM)
OFFSET_UNTIL = int(Slot.OFFSET_UNTIL)
DONE, FULL = int(Outcome.DONE), int(Outcome.FULL)

CODEC_MASK, LZ4_CODEC, LOG_APPEND_TIME = 0x07, 3, 0x08
LZ4_MAGIC = 0x184D2204
LZ4_VERSION = 0b0100_0000
LZ4_SIZE_FLAG = 0b0000_1000
LZ4_UNUSUAL_FLAGS = 0b0001_0111  # Block checksums, content checksum, reserved bit, dictionary.
LZ4_STORED = 0x8000_0000


@njit(inline="always")
def _big_endian(src, at, size):
    """Decode an unsigned big-endian integer; with eight bytes, a signed one."""
    value = np.int64(0)
    for place in range(size):
        value = (value << 8) | byte_at(src, at + place)
    return value


@njit(inline="always")
def _signed_32(src, at):
    """Decode a signed big-endian int32."""
    return np.int64(np.int32(_big_endian(src, at, 4)))


@njit(inline="always")
def _first_block(src, at, end):
    """Return the position of the first block of the LZ4 frame at `at`.

    -1 if the frame is not plain.
    """
    if end - at < 11 or word_at(src, at) != LZ4_MAGIC:
        return np.int64(-1)
    flags = byte_at(src, at + 4)
    if flags & (0b1100_0000 | LZ4_UNUSUAL_FLAGS) != LZ4_VERSION:
        return np.int64(-1)
    return at + 7 + (8 if flags & LZ4_SIZE_FLAG else 0)


@njit(boundscheck=False, _nrt=False)
def _only_block(src, at, end):
    """Return begin and end of the block of a single-block LZ4 frame; begin -1 for any other
    frame."""
    at = _first_block(src, at, end)
    if at < 0 or end - at < 8:
        return np.int64(-1), end
    size = word_at(src, at)
    if size == 0 or size & LZ4_STORED != 0 or size != end - at - 8 or word_at(src, end - 4) != 0:
        return np.int64(-1), end
    return at + 4, end - 4


@njit(boundscheck=False, _nrt=False)
def _decompress_frame(src, at, end, scratch):
    """Decompress an LZ4 frame into `scratch`; return the size, -1 if the frame is not plain."""
    at = _first_block(src, at, end)
    if at < 0:
        return np.int64(-1)
    done = np.int64(0)
    while True:
        if end - at < 4:
            return np.int64(-1)
        size = word_at(src, at)
        at += 4
        if size == 0:
            break
        stored = size & LZ4_STORED != 0
        size &= LZ4_STORED - 1
        if stored or size > end - at:
            return np.int64(-1)  # Stored blocks, which did not compress, are rare.
        done = decompress_block(src, at, at + size, scratch, done, 0, np.int64(scratch.shape[0]))
        if done < 0:
            return np.int64(-1)
        at += size
    return done if at == end else np.int64(-1)


@njit(boundscheck=False, _nrt=False)
def _classify(src, at, chunk, expected, needed, until):
    """Classify the batch at `at`: return (TAKE or the reason to stop, end, offset after it)."""
    end = np.int64(src.shape[0])
    none = np.int64(0)
    if end - at < HEADER_BYTES:
        return EXHAUSTED, none, none
    base, length = _big_endian(src, at, 8), _signed_32(src, at + BATCH_LENGTH_AT)
    after = at + OVERHEAD_BYTES + length
    if byte_at(src, at + MAGIC_AT) != MAGIC or length < LENGTH_MIN:
        return NOT_PLAIN, none, none
    if after > end:
        return EXHAUSTED, none, none
    attributes, last_delta = (
        _big_endian(src, at + ATTRIBUTES_AT, 2),
        _signed_32(src, at + LAST_OFFSET_DELTA_AT),
    )
    codec, following = attributes & CODEC_MASK, base + last_delta + 1
    if (
        attributes & ~chunk[ATTRIBUTES]
        or attributes & LOG_APPEND_TIME != chunk[TIME_TYPE]
        or (codec != 0 and codec != LZ4_CODEC)
        or _signed_32(src, at + RECORD_COUNT_AT) <= 0
        or last_delta < 0
        or base < expected
        or base >= until
        or following > chunk[LIMIT]
        or following <= needed
        or crc32c(src, at + CRC_FROM, after) != _big_endian(src, at + CRC_AT, 4)
    ):
        return NOT_PLAIN, none, none
    return TAKE, after, following


@njit(boundscheck=False, _nrt=False)
def _decompress_two_batches(src, at, after, following, chunk, until, scratch):
    """Decompress the batch at `at` and the next one, if both are single LZ4 blocks.

    Two independent streams hide each other's latency (`lz4_kernel`). Returns where they end in the
    two halves of `scratch` (-1: not done), then the result of `_classify` for the second batch.
    """
    none = np.int64(-1)
    end = np.int64(src.shape[0])
    if (
        end - after < HEADER_BYTES
        or following >= until
        or byte_at(src, after + ATTRIBUTES_AT + 1) & CODEC_MASK != LZ4_CODEC
    ):
        return none, none, none, none
    first, first_end = _only_block(src, at + HEADER_BYTES, after)
    if first < 0:
        return none, none, none, none
    kind, second_after, second_following = _classify(src, after, chunk, following, following, until)
    if kind != TAKE:
        return none, none, none, none
    second, second_end = _only_block(src, after + HEADER_BYTES, second_after)
    if second < 0:
        return none, none, none, none
    half = np.int64(scratch.shape[0]) >> 1
    first_to, second_to = decompress_two_blocks(
        src, first, first_end, second, second_end, scratch, half
    )
    return first_to, second_to, second_after, second_following


@njit(inline="always")
def _set_up_batch(src, at, state, fixed, needed):
    """Set the batch's slots in `state` for `decode_records`, except the position of its records."""
    state[RECORDS_LEFT], state[BASE_OFFSET] = (
        _signed_32(src, at + RECORD_COUNT_AT),
        _big_endian(src, at, 8),
    )
    state[LAST_DELTA], state[PREVIOUS_DELTA] = _signed_32(src, at + LAST_OFFSET_DELTA_AT), -1
    state[FIXED_TIME], state[OFFSET_FROM] = 1 if fixed else 0, needed
    state[BASE_TIME_MS] = _big_endian(
        src, at + (MAX_TIMESTAMP_AT if fixed else BASE_TIMESTAMP_AT), 8
    )


@njit(cache=True, nogil=True, boundscheck=False, _nrt=False)
def decode_batches(
    src, chunk, scratch, state, offsets, micros, key_ends, keys, key_valid, value_ends, values,
    value_valid, list_ends, list_valid, header_key_ends, header_keys, header_value_ends,
    header_values, header_value_valid,
):  # fmt: skip
    """Decode the batches of `src` from AT on, while they are plain; return a `ChunkOutcome`.

    `src` and the output arrays as in `decode_numba.decode_records`. `scratch`: uint8 buffer for
    decompression; read-only to numba like `src`, so that both use the same compiled
    `decode_records`. `chunk` advances past each decoded batch. FULL: `state` is within a batch that
    AT has passed, in `scratch` if IN_SCRATCH, else in `src`.
    """
    at, expected, needed, until = chunk[AT], chunk[EXPECTED], chunk[NEEDED], state[OFFSET_UNTIL]
    fixed = chunk[TIME_TYPE] != 0
    half = np.int64(scratch.shape[0]) >> 1
    ahead, ahead_to, ahead_after, ahead_following = np.int64(-1), half, half, half
    ended = EXHAUSTED
    while needed < until:
        if at == ahead:
            begin, to, compressed = half, ahead_to, True
            after, following = ahead_after, ahead_following
        else:
            ended, after, following = _classify(src, at, chunk, expected, needed, until)
            if ended != TAKE:
                break
            ended, ahead = NOT_PLAIN, np.int64(-1)
            begin, to = at + HEADER_BYTES, after
            compressed = byte_at(src, at + ATTRIBUTES_AT + 1) & CODEC_MASK != 0
            if compressed:
                begin = np.int64(0)
                to, ahead_to, ahead_after, ahead_following = _decompress_two_batches(
                    src, at, after, following, chunk, until, scratch
                )
                if to < 0:
                    to = _decompress_frame(src, at + HEADER_BYTES, after, scratch)
                    if to < 0:
                        break
                elif ahead_to >= 0:
                    ahead = after
        _set_up_batch(src, at, state, fixed, needed)
        state[POSITION], state[END] = begin, to
        if compressed:
            outcome = decode_records(
                scratch, state, offsets, micros, key_ends, keys, key_valid, value_ends, values,
                value_valid, list_ends, list_valid, header_key_ends, header_keys,
                header_value_ends, header_values, header_value_valid,
            )  # fmt: skip
        else:
            outcome = decode_records(
                src, state, offsets, micros, key_ends, keys, key_valid, value_ends, values,
                value_valid, list_ends, list_valid, header_key_ends, header_keys,
                header_value_ends, header_values, header_value_valid,
            )  # fmt: skip
        ended = NOT_PLAIN
        if outcome < 0:
            break
        at, expected, needed = after, following, following
        ended = EXHAUSTED
        if outcome == FULL:
            chunk[IN_SCRATCH] = 1 if compressed else 0
            ended = CHUNK_FULL
            break
    chunk[AT], chunk[EXPECTED], chunk[NEEDED] = at, expected, needed
    return ended
