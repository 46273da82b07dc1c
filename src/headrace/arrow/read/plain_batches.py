"""Fast path of a PartitionDecoder: as many plain batches as possible in one kernel call."""

import struct
from typing import Any, Protocol

import numpy as np

from headrace.arrow.read.aborted_transactions import Aborted
from headrace.arrow.read.c_data import Array
from headrace.arrow.read.columns import Buffers
from headrace.kernels.choose import DecodeBatches, batches_decoder
from headrace.kernels.layout import INT64_MAX, INT64_MIN, ChunkOutcome, ChunkSlot, Slot
from headrace.record.batch import CODEC_MASK, LOG_APPEND_TIME, TRANSACTIONAL

SCRATCH_BYTES = 2 * 1024 * 1024
"""Buffer size for decompression in the kernel; larger batches are decoded one by one."""
_PLAIN = CODEC_MASK | LOG_APPEND_TIME
_OFFSET_UNTIL = int(Slot.OFFSET_UNTIL)
_OUTCOMES = tuple(ChunkOutcome)
_FULL = ChunkOutcome.FULL
_pack_chunk = struct.Struct(f"={len(ChunkSlot)}q").pack_into


class DecoderProgress(Protocol):
    """A decoder's progress and output buffers. `decode.PartitionDecoder` implements it."""

    position: int
    offset_until: int
    consumed: int
    limits: tuple[int, int] | None
    time_type: int
    source: Array

    @property
    def buffers(self) -> Buffers:
        """The buffers being filled."""


class PlainBatchDecoder:
    """Runs the kernel `decode_batches` for one decoder."""

    def __init__(self, kernel: DecodeBatches) -> None:
        self._kernel = kernel
        self._chunk = np.zeros(len(ChunkSlot), np.int64)
        self._chunk_bytes = memoryview(self._chunk.data)
        self._scratch: Array = np.empty(SCRATCH_BYTES, np.uint8)
        # Only the kernel writes to it. Read-only like `source`, so that numba compiles one variant.
        self._scratch.setflags(write=False)

    def decode(self, source: Array, decoder: DecoderProgress, aborted: Aborted) -> ChunkOutcome:
        """Decode plain batches from `decoder.consumed` on and advance the decoder past them.

        FULL: flush, then continue in the batch in `decoder.source`.
        """
        chunk = self._chunk
        expected, limit = decoder.limits or (INT64_MIN, INT64_MAX)
        buffers = decoder.buffers
        # In the order of `ChunkSlot`, in one call: seven assignments took longer than the kernel
        # call.
        _pack_chunk(
            self._chunk_bytes, 0, decoder.consumed, expected, limit, decoder.position,
            decoder.time_type, 0, _PLAIN if aborted else _PLAIN | TRANSACTIONAL,
        )  # fmt: skip
        buffers.state[_OFFSET_UNTIL] = decoder.offset_until
        outcome = _OUTCOMES[
            self._kernel(source, chunk, self._scratch, buffers.state, *buffers.outs)
        ]
        decoder.consumed, expected, _, decoder.position, _, in_scratch, _ = chunk.tolist()
        if decoder.limits is not None:
            decoder.limits = (expected, limit)
        if outcome is _FULL:
            decoder.source = self._scratch if in_scratch else source
        return outcome


def plain_batch_decoder() -> PlainBatchDecoder | None:
    """Return a decoder of plain batches; None without numba or the CPU instructions it uses."""
    kernel: Any = batches_decoder()
    return None if kernel is None else PlainBatchDecoder(kernel)
