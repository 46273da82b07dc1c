"""The records of a compaction, processed by numba; implements `log.compaction.records.Records`."""

import os
from typing import Any

import numpy as np

from headrace.kernels.compile_cache import prepare_cache
from headrace.log.compaction.records import Filtered, Span
from headrace.ports.disk import Buffer
from headrace.record.compression import CorruptBatch

Array = np.ndarray[Any, Any]

_ROOM_BYTES = 1 << 20
_REBASE_ROOM_BYTES = 16
_RECORD_BYTES_MIN = 6
"""Least size of a record: length, attributes, two deltas, two lengths."""
_SLOTS_SPARE = 16
_SLOTS_MIN = 1 << 16
_FULL_SHARE = 0.6
"""A map fuller than this share grows, up to its limit: small maps stay in the CPU cache."""
_HASHES, _NUMBERS = 2, 5
"""Work words per record for the kernel."""


class KernelRecords:
    """`log.compaction.records.Records`, implemented by the kernels of `compact_numba`. Not
    thread-safe."""

    def __init__(self, keys: int, slots: int = 0) -> None:
        """Create a map for at most `keys` keys, in at most `slots` slots plus a few spare ones."""
        prepare_cache()
        from headrace.kernels import compact_numba

        self._kernel = compact_numba
        self._seed: Array = np.frombuffer(os.urandom(16), np.uint64)
        self._slots_max = max(slots, 0) + _SLOTS_SPARE
        self._table: Array = np.zeros(3 * min(self._slots_max, _SLOTS_MIN), np.uint64)
        self._state: Array = np.zeros(9, np.int64)
        self._state[compact_numba.KEYS_MAX] = max(min(keys, self._slots_max - 1), 1)
        self._out: Array = np.empty(_ROOM_BYTES, np.uint8)
        self._hashes: Array = np.empty(0, np.uint64)
        self._work: Array = np.empty(0, np.int64)

    def index(self, span: Span, start: int) -> tuple[bool, int]:
        """Implement `Records.index`."""
        kernel, state = self._kernel, self._state
        payload, count, base, last_delta = span
        source = self._source(payload, count)
        self._grow(count)
        outcome = kernel.index_records(
            source, count, base, last_delta, start, self._seed, self._table, state,
            self._hashes, self._work,
        )  # fmt: skip
        if outcome < 0:
            raise self._corrupt(outcome)
        return outcome == kernel.FULL, int(state[kernel.NOTED])

    def filter(self, span: Span, latest: int, keep_tombstones: bool) -> Filtered:
        """Implement `Records.filter`."""
        kernel, state = self._kernel, self._state
        payload, count, base, last_delta = span
        out = self._room(len(payload))
        source = self._source(payload, count)
        outcome = kernel.filter_records(
            source, count, base, last_delta, latest, keep_tombstones, self._seed, self._table, out,
            state, self._hashes, self._work,
        )  # fmt: skip
        if outcome < 0:
            raise self._corrupt(outcome)
        _, _, _, kept, size, newest, tombstones, keyless, _ = state.tolist()
        # Records of a batch that is kept whole are copied from the log, so they are not returned.
        data = b"" if kept == count and not tombstones else out[:size].tobytes()
        if kept == count and tombstones:
            return Filtered(kept, payload, newest, True, keyless)
        return Filtered(kept, data, newest, bool(tombstones), keyless)

    def rebase(self, payload: Buffer, count: int, shift: int) -> bytes:
        """Implement `Records.rebase`."""
        out = self._room(len(payload) + _REBASE_ROOM_BYTES * count)
        source = np.frombuffer(payload, np.uint8)
        size = self._kernel.rebase_records(source, count, shift, out)
        return out[:size].tobytes()

    def _source(self, payload: Buffer, count: int) -> Array:
        """Return the payload as an array; size the work arrays for `count` records."""
        if not 0 <= count * _RECORD_BYTES_MIN <= len(payload):
            raise CorruptBatch(f"{count} records do not fit in {len(payload)} bytes")
        if _NUMBERS * count > len(self._work):
            self._hashes = np.empty(_HASHES * count, np.uint64)
            self._work = np.empty(_NUMBERS * count, np.int64)
        return np.frombuffer(payload, np.uint8)

    def _grow(self, count: int) -> None:
        """Grow the map for `count` more keys, up to its limit."""
        used = int(self._state[self._kernel.USED]) + count
        slots = len(self._table) // 3
        if used <= _FULL_SHARE * slots or slots == self._slots_max:
            return
        while used > _FULL_SHARE * slots and slots < self._slots_max:
            slots = min(2 * slots, self._slots_max)
        larger: Array = np.zeros(3 * slots, np.uint64)
        self._kernel.grow_table(self._table, larger)
        self._table = larger

    def _room(self, size: int) -> Array:
        if len(self._out) < size:
            self._out = np.empty(size, np.uint8)
        return self._out

    def _corrupt(self, outcome: int) -> CorruptBatch:
        kernel = self._kernel
        complaints = {
            kernel.BAD_LENGTH: "a record's length runs past the batch",
            kernel.BAD_NUMBER: "a number in a record does not end",
            kernel.BAD_OFFSET: "a record's offset lies outside the batch or does not increase",
            kernel.BAD_KEY: "a key runs past its record",
            kernel.BAD_VALUE: "a value runs past its record",
            kernel.BAD_END: "bytes left over after the last record",
        }
        return CorruptBatch(complaints[outcome])
