"""Output buffers, and how they become a pyarrow.RecordBatch without a copy.

A `Buffers` is a set of numpy arrays the decoder writes to. RecordBatches refer to them; a set goes
back to work only when Python's reference counts say that no RecordBatch refers to it any more
(touching fresh memory costs more here than decoding into it).
"""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.arrow.layout import SLOTS, Slot

Array = np.ndarray[Any, Any]

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
"""What a row has unless columns are chosen: the schema of Spark's Kafka connector."""

HEADERS = "headers"

_BINARY = pa.binary()
_HEADER = pa.struct([("key", pa.string()), ("value", _BINARY)])
TYPES = {
    "key": _BINARY,
    "value": _BINARY,
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    HEADERS: pa.list_(pa.field("element", _HEADER)),
}

_ALL_VALID = 0xFF
_ASCII_MAX = 0x7F
_IDLE_SETS_MAX = 4
_HEADERS_PER_ROW = 4


TOPIC_DICTIONARY = pa.dictionary(pa.int32(), pa.string())


def schema(columns: Sequence[str] = COLUMNS, *, topic_dictionary: bool = False) -> pa.Schema:
    """The Arrow schema of these columns, in this order; KeyError for a name that is none.

    With `topic_dictionary` the topic is dictionary-encoded: its name is there once.
    """
    types = TYPES | {"topic": TOPIC_DICTIONARY} if topic_dictionary else TYPES
    return pa.schema([(name, types[name]) for name in columns])


def _references(arrays: tuple[Array, ...]) -> int:
    return sum(map(sys.getrefcount, arrays))


_REFERENCES_OF_ONE_KEPT_IN_A_TUPLE = _references((np.empty(0),))


class Buffers:
    """One set of output arrays for `rows` rows, of which only the wanted columns have length."""

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
        self._gather()
        self.renew()

    def renew(self) -> None:
        """Empty the set. Call only while it is idle."""
        self.state[:] = 0
        for bitmap in (self.key_valid, self.value_valid, self.list_valid, self.header_value_valid):
            bitmap.fill(_ALL_VALID)

    def make_room(self, record_bytes: int) -> None:
        """Let one record of that many bytes fit the emptied set, whatever its parts are."""
        for name in ("keys", "values", "header_keys", "header_values"):
            array: Array = getattr(self, name)
            if 0 < len(array) < record_bytes:
                setattr(self, name, np.empty(record_bytes, np.uint8))
        headers = record_bytes >> 1  # a header takes two bytes at least
        if 0 < len(self.header_key_ends) <= headers:
            self.header_key_ends = np.zeros(headers + 1, np.int32)
            self.header_value_ends = np.zeros(headers + 1, np.int32)
            self.header_value_valid = np.full((headers >> 3) + 1, _ALL_VALID, np.uint8)
        self._gather()

    def _gather(self) -> None:
        self.outs: tuple[Array, ...] = (
            self.offsets, self.micros, self.key_ends, self.keys, self.key_valid,
            self.value_ends, self.values, self.value_valid, self.list_ends, self.list_valid,
            self.header_key_ends, self.header_keys, self.header_value_ends, self.header_values,
            self.header_value_valid,
        )  # fmt: skip

    def idle(self) -> bool:
        """Whether no Arrow array made of this set is alive."""
        # An idle array is known to the tuple and to the attribute of its name, and to nobody else.
        own = len(self.outs) * (_REFERENCES_OF_ONE_KEPT_IN_A_TUPLE + 1)
        return _references(self.outs) == own


class Pool:
    """Hands out emptied Buffers: an idle one where there is one, otherwise a new one."""

    def __init__(self, *sizes: int, columns: Sequence[str]) -> None:
        self._sizes = sizes
        self._columns = columns
        self._known: list[Buffers] = []

    def take(self) -> Buffers:
        """An empty set that nobody refers to. It stays known and comes again once idle."""
        for buffers in self._known:
            if buffers.idle():
                buffers.renew()
                return buffers
        rows, key_bytes, value_bytes, header_bytes = self._sizes
        buffers = Buffers(rows, key_bytes, value_bytes, header_bytes, self._columns)
        if len(self._known) < _IDLE_SETS_MAX:
            self._known.append(buffers)
        return buffers


class Assembler:
    """Makes RecordBatches of one partition's decoded buffers."""

    def __init__(
        self, topic: str, partition: int, rows_max: int, columns: Sequence[str],
        topic_dictionary: bool = False,
    ) -> None:  # fmt: skip
        self._columns = tuple(columns)
        self._rows_max = rows_max
        self._schema = schema(columns, topic_dictionary=topic_dictionary)
        self._constant: dict[str, Any] = {}
        if "topic" in columns:
            self._constant["topic"] = (
                pa.DictionaryArray.from_arrays(np.zeros(rows_max, np.int32), [topic])
                if topic_dictionary
                else pa.array([topic] * rows_max, pa.string())
            )
        if "partition" in columns:
            self._constant["partition"] = pa.array(np.full(rows_max, partition, np.int32))
        self._time_types = tuple(pa.array(np.full(rows_max, kind, np.int32)) for kind in (0, 1))

    def assemble(self, buffers: Buffers, timestamp_type: int) -> pa.RecordBatch:
        """The rows of `buffers` as Arrow, uncopied: the set is not idle while this lives."""
        state: list[int] = buffers.state.tolist()
        arrays = [self._column(name, buffers, state, timestamp_type) for name in self._columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _column(
        self, name: str, buffers: Buffers, state: list[int], timestamp_type: int
    ) -> pa.Array:
        rows = state[Slot.ROWS]
        if name in self._constant:
            return self._first(self._constant[name], rows)
        if name == "key":
            return _binary(
                _BINARY, rows, buffers.key_ends, buffers.keys, buffers.key_valid,
                state[Slot.KEY_BYTES], state[Slot.KEY_NULLS],
            )  # fmt: skip
        if name == "value":
            return _binary(
                _BINARY, rows, buffers.value_ends, buffers.values, buffers.value_valid,
                state[Slot.VALUE_BYTES], state[Slot.VALUE_NULLS],
            )  # fmt: skip
        if name == "timestampType":
            return self._first(self._time_types[timestamp_type], rows)
        if name == HEADERS:
            return _headers(buffers, state)
        numbers = buffers.offsets if name == "offset" else buffers.micros
        return pa.Array.from_buffers(TYPES[name], rows, [None, pa.py_buffer(numbers)], 0)

    def _first(self, constant: pa.Array, rows: int) -> pa.Array:
        return constant if rows == self._rows_max else constant.slice(0, rows)


def _validity(bitmap: Array, nulls: int) -> pa.Buffer | None:
    return pa.py_buffer(bitmap) if nulls else None


def _binary(
    kind: pa.DataType, rows: int, ends: Array, data: Array, valid: Array, size: int, nulls: int
) -> pa.Array:
    content = pa.py_buffer(data).slice(0, size)
    buffers = [_validity(valid, nulls), pa.py_buffer(ends), content]
    return pa.Array.from_buffers(kind, rows, buffers, nulls)


def _headers(buffers: Buffers, state: list[int]) -> pa.Array:
    count = state[Slot.HEADERS]
    values = _binary(
        _BINARY, count, buffers.header_value_ends, buffers.header_values,
        buffers.header_value_valid, state[Slot.HEADER_VALUE_BYTES], state[Slot.HEADER_VALUE_NULLS],
    )  # fmt: skip
    structs = pa.Array.from_buffers(
        _HEADER, count, [None], 0, children=[_header_keys(buffers, state), values]
    )
    nulls = state[Slot.HEADER_LIST_NULLS]
    ends = pa.py_buffer(buffers.list_ends)
    return pa.Array.from_buffers(
        TYPES[HEADERS], state[Slot.ROWS], [_validity(buffers.list_valid, nulls), ends], nulls,
        children=[structs],
    )  # fmt: skip


def _header_keys(buffers: Buffers, state: list[int]) -> pa.Array:
    """Header keys as Arrow strings. Bytes that are no UTF-8 become U+FFFD, as in Java's client."""
    count, size = state[Slot.HEADERS], state[Slot.HEADER_KEY_BYTES]
    kind = pa.string()
    data = buffers.header_keys[:size]
    if size == 0 or data.max() <= _ASCII_MAX:
        ends, keys = buffers.header_key_ends, buffers.header_keys
        return _binary(kind, count, ends, keys, buffers.header_value_valid, size, 0)
    raw = _binary(
        _BINARY, count, buffers.header_key_ends, buffers.header_keys,
        buffers.header_value_valid, size, 0,
    )  # fmt: skip
    return pa.array([key.decode(errors="replace") for key in raw.to_pylist()], kind)
