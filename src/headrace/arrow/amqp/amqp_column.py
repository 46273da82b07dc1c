"""The column `amqp`: exchange, routing key and properties of records that AMQP clients published.

Such a record has its exchange and its content header among its headers, and the routing key there
or as its key (`headrace.wire.amqp.record_headers`). Other records have null.

No Python code runs per record: publishers mostly repeat their properties, so content headers that
differ only in the body size are decoded once, and those of a RecordBatch all together
(`amqp_properties`).
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.arrow.amqp.amqp_properties import PropertyColumns
from headrace.arrow.read.byte_ranges import pick, texts
from headrace.arrow.read.c_data import Array
from headrace.arrow.read.columns import AMQP_TYPE
from headrace.wire.amqp.properties import FLAGS_AT
from headrace.wire.amqp.record_headers import EXCHANGE, HEADER, ROUTING_KEY


def amqp_column(keys: pa.BinaryArray, headers: pa.ListArray) -> pa.StructArray:
    """Return the AMQP metadata of each record; null for records of other protocols.

    Properties are null if the content header cannot be decoded. `headers` must not be a slice.
    """
    found = _RecordHeaders(headers)
    content_headers = found.values(found.places(HEADER))
    strangers = content_headers.null_count
    if strangers == len(content_headers):
        return pa.nulls(strangers, AMQP_TYPE)
    others = content_headers.is_null()
    encoded = _without_body_sizes(content_headers).dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy()
    properties = PropertyColumns(encoded.dictionary)
    made = {
        "exchange": texts(found.values(found.places(EXCHANGE)).fill_null(b"")),
        "routing_key": _routing_keys(found, keys, others),
    }
    arrays = [
        made[field.name] if field.name in made else properties.column(field.name, field.type, codes)
        for field in AMQP_TYPE
    ]
    mask = others if strangers else None
    return pa.StructArray.from_arrays(arrays, fields=list(AMQP_TYPE), mask=mask)


def _without_body_sizes(content_headers: pa.BinaryArray) -> pa.BinaryArray:
    """Return the content headers with body sizes zeroed, so that equal properties have equal
    bytes."""
    # pyarrow 26's `binary_slice` fails on nulls ("Negative buffer resize").
    valid, ends, data = content_headers.buffers()
    bounds = np.frombuffer(ends, np.int32)[: len(content_headers) + 1]
    begin = bounds[:-1][np.diff(bounds) >= FLAGS_AT]
    content = np.frombuffer(data or b"", np.uint8).copy()
    content[begin[:, None] + np.arange(FLAGS_AT)] = 0
    buffers = [valid, ends, pa.py_buffer(content)]
    return pa.BinaryArray.from_buffers(pa.binary(), len(content_headers), buffers)


def _routing_keys(
    found: "_RecordHeaders", keys: pa.BinaryArray, others: pa.BooleanArray
) -> pa.StringArray:
    """Return each record's routing-key header if it has one, else its key; empty without either."""
    places = found.places(ROUTING_KEY)
    named = places >= 0
    if named.any():
        keys = pc.if_else(pa.array(named), found.values(places), keys)
    # Keys of other records may be any bytes, so they are not decoded as strings.
    return texts(pc.if_else(others, b"", keys.fill_null(b"")))


class _RecordHeaders:
    """The headers of many records, looked up by name."""

    def __init__(self, headers: pa.ListArray) -> None:
        self._ends: Array = headers.offsets.to_numpy()
        self._names: Any = headers.values.field("key")
        self._values: Any = headers.values.field("value")

    def places(self, name: str) -> Array:
        """Return the index of each record's last header with this name; -1 if it has none."""
        found = pc.indices_nonzero(pc.equal(self._names, name)).to_numpy().astype(np.int64)
        rows = np.searchsorted(self._ends, found, side="right") - 1
        last = np.append(rows[1:] != rows[:-1], True)[: len(rows)]
        places = np.full(len(self._ends) - 1, -1)
        places[rows[last]] = found[last]
        return places

    def values(self, places: Array) -> pa.BinaryArray:
        """Return the header values at these indices; null for -1."""
        return pick(self._values, places)
