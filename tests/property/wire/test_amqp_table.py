"""Field tables and content headers: there and back, edited by splices, cut and flipped."""

import contextlib
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.errors import Malformed
from headrace.wire.amqp.field_table import (
    ByteArray,
    Decimal,
    FieldTable,
    FieldValue,
    Float32,
    Int8,
    Int16,
    Long,
    Timestamp,
    UInt8,
    UInt16,
    UInt32,
    decode_table,
    encode_table,
    walk_entries,
)
from headrace.wire.amqp.properties import (
    Properties,
    body_size_of,
    header_value,
    headers_of,
    make_header,
    property_of,
    read_essentials,
    read_properties,
    with_header,
    without_header,
    without_property,
)


def _sized(kind: type, bits: int, signed: bool = True) -> st.SearchStrategy[FieldValue]:
    low = -(1 << bits - 1) if signed else 0
    return st.integers(low, low + (1 << bits) - 1).map(kind)


NAMES = st.text(st.characters(codec="utf-8"), max_size=20)
SCALARS: st.SearchStrategy[FieldValue] = st.one_of(
    st.none(),
    st.booleans(),
    st.text(st.characters(codec="utf-8"), max_size=30),
    st.binary(max_size=30).map(ByteArray),
    st.just(b"\xff\xfe no UTF-8"),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.integers(-(1 << 31), (1 << 31) - 1).map(Long),
    _sized(Int8, 8),
    _sized(UInt8, 8, signed=False),
    _sized(Int16, 16),
    _sized(UInt16, 16, signed=False),
    _sized(UInt32, 32, signed=False),
    _sized(Timestamp, 64, signed=False),
    st.floats(allow_nan=False),
    st.floats(allow_nan=False, width=32).map(Float32),
    st.builds(Decimal, st.integers(0, 255), st.integers(0, (1 << 32) - 1)),
)
VALUES: st.SearchStrategy[FieldValue] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
TABLES: st.SearchStrategy[FieldTable] = st.dictionaries(NAMES, VALUES, max_size=6)
STRINGS = st.none() | NAMES
PROPERTIES = st.builds(
    Properties,
    content_type=STRINGS,
    content_encoding=STRINGS,
    headers=st.none() | TABLES,
    delivery_mode=st.none() | st.integers(0, 255),
    priority=st.none() | st.integers(0, 255),
    correlation_id=STRINGS,
    reply_to=STRINGS,
    expiration=STRINGS,
    message_id=STRINGS,
    timestamp=st.none() | st.integers(0, (1 << 64) - 1),
    type=STRINGS,
    user_id=STRINGS,
    app_id=STRINGS,
    cluster_id=STRINGS,
)


def kinds(value: FieldValue) -> object:
    """Return a value with the kind of each part told."""
    if isinstance(value, dict):
        return {name: kinds(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [kinds(inner) for inner in value]
    return type(value), value


@given(TABLES)
def test_a_table_comes_back_with_every_kind(table: FieldTable) -> None:
    wire = encode_table(table)
    back = decode_table(wire)
    assert kinds(back) == kinds(table)
    assert encode_table(back) == wire


@given(TABLES)
def test_the_walk_over_a_table_finds_each_entry_where_it_is(table: FieldTable) -> None:
    wire = encode_table(table)
    entries = list(walk_entries(wire))
    assert [name.decode() for name, _, _ in entries] == list(table)
    for name, begin, end in entries:
        assert wire[begin:end] == encode_table({name.decode(): table[name.decode()]})


@given(TABLES, st.data())
def test_a_cut_or_flipped_table_is_malformed_or_another_table(
    table: FieldTable, data: st.DataObject
) -> None:
    wire = bytearray(encode_table(table) or b"\x01aV")
    at = data.draw(st.integers(0, len(wire) - 1))
    wire[at] = data.draw(st.integers(0, 255))
    cut = bytes(wire[: data.draw(st.integers(0, len(wire)))])
    with contextlib.suppress(Malformed):
        encode_table(decode_table(cut))
    with contextlib.suppress(Malformed):
        list(walk_entries(cut))


@given(PROPERTIES, st.integers(0, (1 << 64) - 1))
def test_properties_come_back(properties: Properties, body_size: int) -> None:
    header = make_header(body_size, properties)
    assert read_properties(header) == properties
    assert body_size_of(header) == body_size
    for name, value in zip(Properties._fields, properties, strict=True):
        assert property_of(header, name) == value


@given(PROPERTIES)
def test_what_a_broker_goes_by_is_what_all_properties_tell(properties: Properties) -> None:
    essentials = read_essentials(make_header(0, properties))
    mode = properties.delivery_mode
    assert essentials.delivery_mode == (1 if mode is None else mode)
    assert essentials.priority == properties.priority
    for name in ("reply_to", "expiration", "user_id"):
        text = getattr(properties, name)
        assert getattr(essentials, name) == (None if text is None else text.encode())
    headers = None if properties.headers is None else encode_table(properties.headers)
    assert essentials.headers == headers == headers_of(make_header(0, properties))


@given(PROPERTIES, NAMES, VALUES)
def test_a_header_set_by_a_splice_leaves_all_else_as_it_was(
    properties: Properties, name: str, value: FieldValue
) -> None:
    header = with_header(make_header(7, properties), name, value)
    expected = {**(properties.headers or {}), name: value}
    assert header == make_header(7, properties._replace(headers=expected))
    assert kinds(header_value(header, name)) == kinds(value)


@given(PROPERTIES, st.data())
def test_a_header_removed_by_a_splice_leaves_all_else_as_it_was(
    properties: Properties, data: st.DataObject
) -> None:
    names = [*(properties.headers or {}), "not there"]
    name = data.draw(st.sampled_from(names))
    headers = properties.headers
    if headers is not None:
        headers = {key: value for key, value in headers.items() if key != name}
    expected = make_header(7, properties._replace(headers=headers))
    assert without_header(make_header(7, properties), name) == expected


@given(PROPERTIES, st.sampled_from(Properties._fields))
def test_a_property_removed_leaves_all_else_as_it_was(properties: Properties, name: str) -> None:
    header = without_property(make_header(7, properties), name)
    assert header == make_header(7, properties._replace(**{name: None}))


@given(PROPERTIES, st.data())
def test_a_cut_content_header_is_malformed(properties: Properties, data: st.DataObject) -> None:
    header = make_header(3, properties)
    cut = header[: data.draw(st.integers(0, len(header) - 1))]
    for read in (read_essentials, read_properties):
        with pytest.raises(Malformed):
            read(cut)


@given(PROPERTIES, st.data())
def test_a_flipped_content_header_is_malformed_or_another_header(
    properties: Properties, data: st.DataObject
) -> None:
    header = bytearray(make_header(3, properties))
    header[data.draw(st.integers(0, len(header) - 1))] = data.draw(st.integers(0, 255))
    wire = bytes(header)
    readings: list[partial[Any]] = [
        partial(read_essentials, wire),
        partial(read_properties, wire),
        partial(with_header, wire, "x-death", ["again"]),
        partial(without_header, wire, "CC"),
        *(partial(property_of, wire, name) for name in Properties._fields),
    ]
    for reading in readings:
        with contextlib.suppress(Malformed):
            reading()
