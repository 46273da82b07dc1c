"""The columns of a topic's rows, and the buffers that they are decoded into.

A `Buffers` is a set of numpy arrays that the decoder fills and RecordBatches reference
(`assemble`). It is reused only when no RecordBatch references it, which Python's reference count
shows. Fresh memory costs more page faults than decoding costs time, so reuse matters.
"""

import sys
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.kernels.layout import SLOTS

if TYPE_CHECKING:
    from headrace.arrow.read.c_data import Array, RecordBatchExport

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
"""Default columns of a row: the schema of Spark's Kafka connector."""

HEADERS = "headers"
AMQP = "amqp"
NEVER_NULL = frozenset({"topic", "partition", "offset", "timestamp", "timestampType"})
"""Columns that are never null."""

_BINARY = pa.binary()
_HEADER = pa.struct([("key", pa.string()), ("value", _BINARY)])
_TIME = pa.timestamp("us", tz="UTC")
AMQP_TYPE = pa.struct([
    ("exchange", pa.string()),
    ("routing_key", pa.string()),
    ("content_type", pa.string()),
    ("content_encoding", pa.string()),
    ("headers", pa.map_(pa.string(), pa.string())),
    ("delivery_mode", pa.int32()),
    ("priority", pa.int32()),
    ("correlation_id", pa.string()),
    ("reply_to", pa.string()),
    ("expiration", pa.string()),
    ("message_id", pa.string()),
    ("timestamp", _TIME),
    ("type", pa.string()),
    ("user_id", pa.string()),
    ("app_id", pa.string()),
])  # fmt: skip
"""Type of the column `amqp`: exchange, routing key and the properties by AMQP's names."""
TOPIC_DICTIONARY = pa.dictionary(pa.int32(), pa.string())
TYPES = {
    "key": _BINARY,
    "value": _BINARY,
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": _TIME,
    "timestampType": pa.int32(),
    HEADERS: pa.list_(pa.field("element", _HEADER)),
    AMQP: AMQP_TYPE,
}
_AMQP_FROM = ("key", HEADERS)
"""The columns that `amqp` is computed from."""

_ALL_VALID = 0xFF
_IDLE_SETS_MAX = 4
_HEADERS_PER_ROW = 4


def schema(
    columns: Sequence[str] = COLUMNS,
    *,
    topic_dictionary: bool = False,
    required: Collection[str] = (),
) -> pa.Schema:
    """Return the Arrow schema of these columns in this order; KeyError for an unknown name.

    `topic_dictionary`: dictionary-encode the topic, so that its name is stored once. `required`:
    names from NEVER_NULL whose fields get `nullable=False`.
    """
    types = TYPES | {"topic": TOPIC_DICTIONARY} if topic_dictionary else TYPES
    return pa.schema([pa.field(name, types[name], name not in required) for name in columns])


def decoded(columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns to decode for `columns`: in place of `amqp` those it is computed from."""
    if AMQP not in columns:
        return tuple(columns)
    own = [name for name in columns if name != AMQP]
    return (*own, *(name for name in _AMQP_FROM if name not in own))


class Buffers:
    """A set of output arrays for `rows` rows; arrays of unwanted columns are empty."""

    def __init__(
        self, rows: int, key_bytes: int, value_bytes: int, header_bytes: int, columns: Sequence[str]
    ) -> None:
        bits = (rows >> 3) + 1
        headers = rows * _HEADERS_PER_ROW if HEADERS in columns else -1
        with_keys, with_values = "key" in columns, "value" in columns
        self.state = np.zeros(SLOTS, np.int64)
        self.state_bytes = memoryview(self.state.data)
        self.offsets = np.empty(rows, np.int64)
        self.micros = np.empty(rows, np.int64)
        self.key_ends = np.zeros(rows + 1 if with_keys else 0, np.int32)
        self.keys = np.empty(key_bytes if with_keys else 0, np.uint8)
        self.key_valid = np.empty(bits, np.uint8)
        self.value_ends = np.zeros(rows + 1 if with_values else 0, np.int32)
        self.values = np.empty(value_bytes if with_values else 0, np.uint8)
        self.value_valid = np.empty(bits, np.uint8)
        self.list_ends = np.zeros(rows + 1 if headers >= 0 else 0, np.int32)
        self.list_valid = np.empty(bits, np.uint8)
        self.header_key_ends = np.zeros(headers + 1, np.int32)
        self.header_keys = np.empty(header_bytes if headers >= 0 else 0, np.uint8)
        self.header_value_ends = np.zeros(headers + 1, np.int32)
        self.header_values = np.empty(header_bytes if headers >= 0 else 0, np.uint8)
        self.header_value_valid = np.empty((max(headers, 0) >> 3) + 1, np.uint8)
        self._collect_outs()
        self.renew()

    def renew(self) -> None:
        """Reset the set for new rows. Call only while it is idle."""
        self.state[:] = 0
        for bitmap in (self.key_valid, self.value_valid, self.list_valid, self.header_value_valid):
            bitmap.fill(_ALL_VALID)

    def make_room(self, record_bytes: int) -> None:
        """Grow the empty set so that any record of `record_bytes` bytes fits."""
        for name in ("keys", "values", "header_keys", "header_values"):
            array: Array = getattr(self, name)
            if 0 < len(array) < record_bytes:
                setattr(self, name, np.empty(record_bytes, np.uint8))
        headers = record_bytes >> 1  # A header takes at least two bytes.
        if 0 < len(self.header_key_ends) <= headers:
            self.header_key_ends = np.zeros(headers + 1, np.int32)
            self.header_value_ends = np.zeros(headers + 1, np.int32)
            self.header_value_valid = np.full((headers >> 3) + 1, _ALL_VALID, np.uint8)
        self._collect_outs()

    def _collect_outs(self) -> None:
        self.outs: tuple[Array, ...] = (
            self.offsets, self.micros, self.key_ends, self.keys, self.key_valid,
            self.value_ends, self.values, self.value_valid, self.list_ends, self.list_valid,
            self.header_key_ends, self.header_keys, self.header_value_ends, self.header_values,
            self.header_value_valid,
        )  # fmt: skip
        self.exports: dict[int, RecordBatchExport] = {}
        """Exports of this set to Arrow, by timestamp type. RecordBatches reference this dict, see
        `idle`."""
        self._own_references = self._references()

    def _references(self) -> int:
        return sys.getrefcount(self.exports)

    def idle(self) -> bool:
        """Return whether no RecordBatch references this set.

        Each RecordBatch holds a reference to `exports`, so a count above the set's own means that
        Arrow still reads the arrays. The count includes the call's argument, as in
        `_own_references`.
        """
        return self._references() == self._own_references


class Pool:
    """Provides empty Buffers: a known idle set if there is one, else a new one."""

    def __init__(self, *sizes: int, columns: Sequence[str]) -> None:
        self._sizes = sizes
        self._columns = columns
        self._known: list[Buffers] = []

    def take(self) -> Buffers:
        """Return an empty, unreferenced set; the pool remembers a few for reuse."""
        for buffers in self._known:
            if buffers.idle():
                buffers.renew()
                return buffers
        rows, key_bytes, value_bytes, header_bytes = self._sizes
        buffers = Buffers(rows, key_bytes, value_bytes, header_bytes, self._columns)
        if len(self._known) < _IDLE_SETS_MAX:
            self._known.append(buffers)
        return buffers
