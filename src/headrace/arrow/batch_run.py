"""The fast lane of a PartitionDecoder: as many plain batches as there are, in one call."""

import struct
from typing import Any, Protocol

import numpy as np

from headrace.arrow.aborted_transactions import Aborted
from headrace.arrow.c_data import Array
from headrace.arrow.columns import Buffers
from headrace.kernels.choose import RunKernel, runner
from headrace.kernels.layout import INT64_MAX, INT64_MIN, Lane, Run, Slot
from headrace.record.batch import CODEC_MASK, LOG_APPEND_TIME, TRANSACTIONAL

SCRATCH_BYTES = 2 * 1024 * 1024
"""Where batches unfold; one that needs more is decoded by itself."""
_PLAIN = CODEC_MASK | LOG_APPEND_TIME
_OFFSET_UNTIL = int(Slot.OFFSET_UNTIL)
_LANES = tuple(Lane)
_FULL = Lane.FULL
_pack_run = struct.Struct(f"={len(Run)}q").pack_into


class Progress(Protocol):
    """How far a decoder is, and where its rows go. `decode.PartitionDecoder`."""

    position: int
    offset_until: int
    consumed: int
    limits: tuple[int, int] | None
    time_type: int
    source: Array

    @property
    def buffers(self) -> Buffers:
        """What is being filled."""


class FastLane:
    """Runs `run.decode_run` on behalf of one decoder."""

    def __init__(self, kernel: RunKernel) -> None:
        self._kernel = kernel
        self._run = np.zeros(len(Run), np.int64)
        self._run_bytes = memoryview(self._run.data)
        self._scratch: Array = np.empty(SCRATCH_BYTES, np.uint8)
        # Written to by raw stores only. Of the same type as `source`: one compilation will do.
        self._scratch.setflags(write=False)

    def run(self, source: Array, decoder: Progress, aborted: Aborted) -> Lane:
        """Take plain batches from `decoder.consumed` on and move the decoder on behind them.

        FULL: flush, and go on in the batch that `decoder.go_on_in` was told of.
        """
        run = self._run
        expected, limit = decoder.limits or (INT64_MIN, INT64_MAX)
        buffers = decoder.buffers
        # In the order of `Run`, and at once: seven assignments took longer than the call.
        _pack_run(
            self._run_bytes, 0, decoder.consumed, expected, limit, decoder.position,
            decoder.time_type, 0, _PLAIN if aborted else _PLAIN | TRANSACTIONAL,
        )  # fmt: skip
        buffers.state[_OFFSET_UNTIL] = decoder.offset_until
        said = _LANES[self._kernel(source, run, self._scratch, buffers.state, *buffers.outs)]
        decoder.consumed, expected, _, decoder.position, _, in_scratch, _ = run.tolist()
        if decoder.limits is not None:
            decoder.limits = (expected, limit)
        if said is _FULL:
            decoder.source = self._scratch if in_scratch else source
        return said


def lane() -> FastLane | None:
    """A lane of one's own; None where there is no numba or the processor lacks an instruction."""
    kernel: Any = runner()
    return None if kernel is None else FastLane(kernel)
