"""Content headers read as columns say what each says read alone, whole or damaged."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.arrow.read.columns import AMQP_TYPE
from headrace.model.errors import Malformed
from headrace.wire.amqp.field_table import FieldTable
from headrace.wire.amqp.header_texts import clean, value_text
from headrace.wire.amqp.properties import (
    Properties,
    make_header,
    property_of,
    read_essentials,
    read_properties,
)
from tests.support.queues.records import NOTHING, amqp_of, message

PROPERTIES = [name for name in AMQP_TYPE.names if name not in ("exchange", "routing_key")]
SECONDS_MAX = 253_402_300_799

words = st.text("ab\x00ü\udcff", max_size=4)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.floats() | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)
octets = st.none() | st.integers(0, 255)
drawn = dict.fromkeys(Properties._fields, st.none() | words) | {
    "headers": st.none() | st.dictionaries(words, values, max_size=3),
    "delivery_mode": octets,
    "priority": octets,
    "timestamp": st.none() | st.integers(0, 1 << 33) | st.integers(0, (1 << 64) - 1),
}
properties = st.builds(Properties, **drawn)
whole = st.builds(make_header, st.integers(0, 1 << 40), properties)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A content header with some bytes others, cut off or longer."""
    header = bytearray(draw(whole))
    for at, byte in draw(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 255)), max_size=3)):
        header[at % len(header)] = byte
    return bytes(header[: draw(st.integers(0, 2 * len(header)))]) + draw(st.binary(max_size=3))


def alone(header: bytes) -> dict[str, Any]:
    """What is said of a message whose content header is read by itself."""
    row = NOTHING | {"exchange": "shop", "routing_key": "eu"}
    try:
        read_essentials(header)
    except Malformed:
        return row
    for name in PROPERTIES:
        try:
            row[name] = as_row(name, property_of(header, name))
        except Malformed:
            assert name == "headers"
    return row


def as_row(name: str, value: int | str | FieldTable | None) -> Any:
    if isinstance(value, dict):
        texts: dict[str, str | None] = {}
        for header, content in value.items():
            texts.setdefault(clean(header), value_text(content))
        return list(texts.items())
    if isinstance(value, str):
        return clean(value)
    if name == "timestamp" and value is not None:
        return None if value > SECONDS_MAX else datetime.fromtimestamp(value, UTC)
    return value


@given(st.lists(whole | damaged() | st.binary(max_size=30), min_size=1, max_size=6))
def test_content_headers_read_together_are_read_as_each_alone(headers: list[bytes]) -> None:
    assert amqp_of(*map(message, headers)) == [alone(header) for header in headers]


@given(whole)
def test_what_is_whole_is_read_wholly(header: bytes) -> None:
    (row,) = amqp_of(message(header))
    assert row is not None
    for name, value in read_properties(header)._asdict().items():
        if name != "cluster_id":
            assert row[name] == as_row(name, value), name


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """Compile before examples are timed."""
    amqp_of(message())
