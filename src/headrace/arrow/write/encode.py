"""Encode Arrow rows to record batches, partition by partition.

Columns are taken by name: key, value, headers, topic, partition, timestamp. A kernel copies bytes
once, from Arrow's buffers into the batch.
"""

import random
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.kernels.choose import records_encoder
from headrace.kernels.encode_layout import ENCODE_SLOTS, Divided, Encoded, EncodeSlot
from headrace.model.errors import HeadraceError
from headrace.model.invariant import invariant
from headrace.model.nouns import TopicPartition
from headrace.record.compression import Codec, compress
from headrace.record.encoded_records import EncodedRecords

Array = np.ndarray[Any, Any]
_NO_BYTES = np.empty(0, np.uint8)
_NO_ENDS = np.empty(0, np.int32)
_MICROS_PER_MS = 1000


class RowError(HeadraceError):
    """A row cannot be written as a record; the text says which and why."""


class _Bytes(NamedTuple):
    """A bytes column as the kernel takes it: offsets, data, validity (empty: no nulls)."""

    ends: Array = _NO_ENDS
    data: Array = _NO_BYTES
    there: Array = _NO_BYTES


class RowEncoder:
    """Encodes rows for the topics of one cluster."""

    def __init__(
        self, partitions: Callable[[str], int], *, batch_bytes: int, codec: Codec = Codec.NONE
    ) -> None:
        """Create an encoder for the topics of a cluster.

        `partitions`: returns a topic's partition count. `batch_bytes`: maximum size of a batch
        before compression; a larger record is a batch by itself.
        """
        self._partitions = partitions
        self.batch_bytes = batch_bytes
        """Maximum size of a batch in bytes; may be lowered between two calls of `encode`."""
        self._codec = codec
        self._encode, self._divide = records_encoder()
        self._out = np.empty(batch_bytes, np.uint8)
        self._sticky: dict[str, int] = {}

    def encode(
        self, rows: pa.RecordBatch | pa.Table, topic: str | None = None
    ) -> Iterator[tuple[TopicPartition, EncodedRecords]]:
        """Yield (partition, batch) for these rows, each partition's batches in the rows' order.

        `topic`: used for all rows in place of the column. Rows without key and partition go to one
        partition of their topic, those of the next call to the next partition. Raises RowError.
        """
        columns = {name: _one_array(rows, name) for name in rows.schema.names}
        names, codes = _topics(columns.get("topic"), topic)
        counts = [self._partitions(name) for name in names]
        keys, values = _bytes_of(columns.get("key")), _bytes_of(columns.get("value"))
        headers = _headers_of(columns.get("headers"))
        places, order = self._divided(names, codes, counts, columns.get("partition"), keys, rows)
        times_ms = _times(columns.get("timestamp"), rows.num_rows)
        begin = 0
        for place, count in zip(
            (TopicPartition(name, at) for name, among in zip(names, counts, strict=True)
             for at in range(among)), places.tolist(), strict=True,
        ):  # fmt: skip
            if count:
                buffers = (times_ms, *keys, *values, *headers)
                for encoded in self._batches(order, begin, begin + count, buffers):
                    yield place, encoded
                begin += count

    def _divided(
        self, names: list[str], codes: Array, counts: list[int], given: pa.Array | None,
        keys: _Bytes, rows: pa.RecordBatch | pa.Table,
    ) -> tuple[Array, Array]:  # fmt: skip
        """Return the row count of each partition, and the rows' indices grouped by partition."""
        partitions, there = _numbers(given)
        first_places = np.cumsum([0, *counts[:-1]], dtype=np.int64)
        counted = np.zeros(sum(counts), np.int64)
        order = np.empty(rows.num_rows, np.int64)
        outcome, row = self._divide(
            np.empty(rows.num_rows, np.int64), counted, order, codes, first_places,
            np.array(counts, np.int64), self._next_sticky(names, counts), partitions, there, *keys,
        )  # fmt: skip
        if outcome == Divided.BAD_TOPIC:
            raise RowError("topic: a row has none; give the option topic, or fill the column")
        if outcome == Divided.BAD_PARTITION:
            name = names[int(codes[row]) if len(codes) else 0]
            raise RowError(
                f"partition: {int(partitions[row])} is not one of {name}, which has"
                f" {counts[names.index(name)]}"
            )
        invariant(outcome == Divided.DONE, "a key lies in its column's data")
        return counted, order

    def _next_sticky(self, names: list[str], counts: list[int]) -> Array:
        for name, count in zip(names, counts, strict=True):
            before = self._sticky.get(name)
            chosen = random.randrange(count) if before is None else (before + 1) % count  # noqa: S311 - spreads load, guards nothing
            self._sticky[name] = chosen
        return np.array([self._sticky[name] for name in names], np.int64)

    def _batches(
        self, order: Array, begin: int, end: int, buffers: tuple[Array, ...]
    ) -> Iterator[EncodedRecords]:
        state = np.zeros(ENCODE_SLOTS, np.int64)
        state[EncodeSlot.NEXT] = begin
        while state[EncodeSlot.NEXT] < end:
            outcome = self._encode(state, order, end, self._out, self.batch_bytes, *buffers)
            if outcome == Encoded.TOO_LARGE:
                self._out = np.empty(int(state[EncodeSlot.NEEDED]), np.uint8)
                continue
            invariant(outcome >= 0, "what is encoded lies in its column's data")
            payload = memoryview(self._out.data)[: int(state[EncodeSlot.BYTES])]
            yield EncodedRecords(
                compress(self._codec, payload),
                self._codec,
                int(state[EncodeSlot.COUNT]),
                int(state[EncodeSlot.BASE_MS]),
                int(state[EncodeSlot.MAX_MS]),
            )


def _one_array(rows: pa.RecordBatch | pa.Table, name: str) -> pa.Array:
    column = rows.column(name)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        # combine_chunks() returns a ChunkedArray if there are no rows.
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks) if column.chunks else pa.array([], column.type)
    return column


def _there(array: pa.Array) -> Array:
    """Return a byte for each row, 0 for null; empty if no row is null."""
    if not array.null_count:
        return _NO_BYTES
    return np.ascontiguousarray(pc.is_valid(array).to_numpy(zero_copy_only=False)).view(np.uint8)


def _bytes_of(array: pa.Array | None) -> _Bytes:
    if array is None or pa.types.is_null(array.type):
        return _Bytes()
    if not pa.types.is_binary(array.type):
        array = array.cast(pa.binary())
    _, ends, data = array.buffers()
    # An array without rows may have no buffers.
    all_ends = np.zeros(1, np.int32) if ends is None else np.frombuffer(ends, np.int32)
    return _Bytes(
        all_ends[array.offset : array.offset + len(array) + 1],
        _NO_BYTES if data is None else np.frombuffer(data, np.uint8),
        _there(array),
    )


def _headers_of(array: pa.Array | None) -> tuple[Array, ...]:
    if array is None or pa.types.is_null(array.type):
        return (_NO_ENDS, _NO_BYTES, *_Bytes()[:2], *_Bytes())
    ends = np.frombuffer(array.buffers()[1], np.int32) if len(array) else np.zeros(1, np.int32)
    ends = ends[array.offset : array.offset + len(array) + 1]
    names, values = array.values.flatten()
    if names.null_count:
        raise RowError("headers: one has no key")
    keys = _bytes_of(names)
    return (ends, _there(array), keys.ends, keys.data, *_bytes_of(values))


def _topics(array: pa.Array | None, topic: str | None) -> tuple[list[str], Array]:
    """Return the topics and each row's index among them; empty indices if there is one topic."""
    if topic is not None:
        return [topic], _NO_ENDS
    if array is None:
        raise RowError("topic: missing; give the option topic, or a column topic")
    coded = array.dictionary_encode()
    names = [str(name) for name in coded.dictionary.to_pylist()]
    if len(names) == 1 and not array.null_count:
        return names, _NO_ENDS
    return names, coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)


def _numbers(array: pa.Array | None) -> tuple[Array, Array]:
    if array is None or pa.types.is_null(array.type):
        return _NO_ENDS, _NO_BYTES
    return array.fill_null(-1).to_numpy(zero_copy_only=False), _there(array)


def _times(array: pa.Array | None, rows: int) -> Array:
    """Return each row's timestamp in ms; the current time for null."""
    now_ms = int(time.time() * 1000)
    if array is None or pa.types.is_null(array.type):
        return np.full(rows, now_ms, np.int64)
    micros = array.cast(pa.timestamp("us", array.type.tz)).cast(pa.int64())
    filled = micros.fill_null(now_ms * _MICROS_PER_MS).to_numpy(zero_copy_only=False)
    times_ms: Array = filled // _MICROS_PER_MS
    return times_ms
