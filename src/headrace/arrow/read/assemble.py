"""Convert decoded buffers to a pyarrow.RecordBatch without copying."""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa

from headrace.arrow.read.c_data import Array, ArrayNode, RecordBatchExport
from headrace.arrow.read.columns import AMQP, HEADERS, Buffers, decoded, schema
from headrace.kernels.layout import Slot

_ASCII_MAX = 0x7F


class Assembler:
    """Makes RecordBatches from one partition's decoded buffers."""

    def __init__(
        self, topic: str, partition: int, rows_max: int, columns: Sequence[str],
        topic_dictionary: bool = False, required: Collection[str] = (),
    ) -> None:  # fmt: skip
        self._columns = decoded(columns)
        schema_of = partial(schema, topic_dictionary=topic_dictionary, required=required)
        self.schema = schema_of(columns)
        self._decoded_schema = schema_of(self._columns)
        self._amqp_column: Callable[[pa.Array, pa.Array], pa.Array] | None = None
        if AMQP in columns:
            from headrace.arrow.amqp.amqp_column import amqp_column

            self._amqp_column = amqp_column
        self._constant: dict[str, ArrayNode] = {}
        if "topic" in columns:
            self._constant["topic"] = _topic(topic.encode(), rows_max, topic_dictionary)
        if "partition" in columns:
            self._constant["partition"] = ArrayNode((np.full(rows_max, partition, np.int32),))
        self._time_types = tuple(ArrayNode((np.full(rows_max, kind, np.int32),)) for kind in (0, 1))

    def assemble(self, buffers: Buffers, timestamp_type: int) -> pa.RecordBatch:
        """Return the rows of `buffers` as a RecordBatch, without copying.

        The buffers cannot be reused while the RecordBatch exists.
        """
        batch = self._decoded(buffers, timestamp_type)
        if self._amqp_column is None:
            return batch
        amqp = self._amqp_column(batch.column("key"), batch.column(HEADERS))
        arrays = [amqp if name == AMQP else batch.column(name) for name in self.schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _decoded(self, buffers: Buffers, timestamp_type: int) -> pa.RecordBatch:
        state: list[int] = buffers.state.tolist()
        if HEADERS in self._columns:
            keys = buffers.header_keys[: state[Slot.HEADER_KEY_BYTES]]
            if len(keys) and keys.max() > _ASCII_MAX:
                text_keys = _as_text(buffers.header_key_ends[: state[Slot.HEADERS] + 1], keys)
                own = self._export(buffers, timestamp_type, text_keys)
                return own.record_batch(state, (buffers.exports, own))
        export = buffers.exports.get(timestamp_type)
        if export is None:
            export = buffers.exports[timestamp_type] = self._export(buffers, timestamp_type)
        return export.record_batch(state, buffers.exports)

    def _export(
        self, buffers: Buffers, timestamp_type: int, header_keys: tuple[Array, Array] | None = None
    ) -> RecordBatchExport:
        keys = header_keys or (buffers.header_key_ends, buffers.header_keys)
        nodes = [self._column(name, buffers, timestamp_type, keys) for name in self._columns]
        return RecordBatchExport(self._decoded_schema, nodes)

    def _column(
        self, name: str, buffers: Buffers, timestamp_type: int, header_keys: tuple[Array, Array]
    ) -> ArrayNode:
        if name in self._constant:
            return self._constant[name]
        if name == "timestampType":
            return self._time_types[timestamp_type]
        if name == HEADERS:
            return _headers(buffers, header_keys)
        if name == "key":
            data = (buffers.key_ends, buffers.keys)
            return ArrayNode(data, valid=buffers.key_valid, nulls=Slot.KEY_NULLS)
        if name == "value":
            data = (buffers.value_ends, buffers.values)
            return ArrayNode(data, valid=buffers.value_valid, nulls=Slot.VALUE_NULLS)
        return ArrayNode((buffers.offsets if name == "offset" else buffers.micros,))


def _topic(name: bytes, rows: int, as_dictionary: bool) -> ArrayNode:
    if as_dictionary:
        return ArrayNode(
            (np.zeros(rows, np.int32),), dictionary=ArrayNode(_repeated(name, 1), length=1)
        )
    return ArrayNode(_repeated(name, rows))


def _repeated(text: bytes, count: int) -> tuple[Array, Array]:
    """Return the buffers of a column of `count` equal strings: end offsets (from 0), and bytes."""
    ends = np.arange(count + 1, dtype=np.int32) * np.int32(len(text))
    return ends, np.tile(np.frombuffer(text, np.uint8), count)


def _headers(buffers: Buffers, keys: tuple[Array, Array]) -> ArrayNode:
    values = ArrayNode(
        (buffers.header_value_ends, buffers.header_values), length=Slot.HEADERS,
        valid=buffers.header_value_valid, nulls=Slot.HEADER_VALUE_NULLS,
    )  # fmt: skip
    pairs = ArrayNode(length=Slot.HEADERS, children=(ArrayNode(keys, length=Slot.HEADERS), values))
    return ArrayNode(
        (buffers.list_ends,), valid=buffers.list_valid, nulls=Slot.HEADER_LIST_NULLS,
        children=(pairs,),
    )  # fmt: skip


def _as_text(ends: Array, data: Array) -> tuple[Array, Array]:
    """Return the buffers of header keys as valid UTF-8: end offsets (from 0), and bytes.

    Invalid UTF-8 becomes U+FFFD, as in Java's client.
    """
    raw = data.tobytes()
    bounds = ends.tolist()
    texts = [raw[begin:end].decode(errors="replace").encode() for begin, end in pairwise(bounds)]
    sizes = np.array([0, *map(len, texts)], np.int64)
    return sizes.cumsum().astype(np.int32), np.frombuffer(b"".join(texts), np.uint8)
