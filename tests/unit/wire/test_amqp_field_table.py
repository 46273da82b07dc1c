"""Field tables at their edges: depth, sizes, kinds RabbitMQ reads in its own way."""

import struct

import pytest

from headrace.model.errors import Malformed
from headrace.wire.amqp.field_table import (
    TABLE_DEPTH_MAX,
    Decimal,
    FieldValue,
    Int8,
    Long,
    UInt32,
    decode_table,
    encode_short_string,
    encode_table,
    encode_value,
    skip_value,
    walk_entries,
)


def nested(depth: int) -> bytes:
    """Return a table with an array that many levels deep."""
    value = b"V"
    for _ in range(depth):
        value = b"A" + struct.pack(">I", len(value)) + value
    return b"\x01a" + value


def test_tables_are_nested_as_deep_as_may_be_and_no_deeper() -> None:
    decode_table(nested(TABLE_DEPTH_MAX))
    with pytest.raises(Malformed, match="nested deeper than 64"):
        decode_table(nested(TABLE_DEPTH_MAX + 1))


def test_a_bomb_of_a_whole_frame_is_malformed_and_walked_over_unread() -> None:
    bomb = nested(25_000)
    with pytest.raises(Malformed):
        decode_table(bomb)
    assert [name for name, _, _ in walk_entries(bomb)] == [b"a"]


def test_both_long_kinds_are_signed_and_of_64_bits() -> None:
    table = decode_table(b"\x01al" + bytes([255] * 8) + b"\x01bL" + bytes([255] * 8))
    assert table == {"a": -1, "b": -1}
    assert encode_table(table) == b"\x01al" + bytes([255] * 8) + b"\x01bl" + bytes([255] * 8)


def test_of_equal_names_the_first_counts() -> None:
    assert decode_table(b"\x01at\x01\x01at\x00") == {"a": True}


def test_a_name_that_is_no_utf_8_comes_back_as_it_was() -> None:
    wire = b"\x02\xff\xfeV"
    assert encode_table(decode_table(wire)) == wire


@pytest.mark.parametrize(
    ("value", "wire"),
    [
        (5, b"I\x00\x00\x00\x05"),
        (Long(5), b"l\x00\x00\x00\x00\x00\x00\x00\x05"),
        (1 << 31, b"l\x00\x00\x00\x00\x80\x00\x00\x00"),
        (Int8(-1), b"b\xff"),
        (UInt32(1 << 31), b"i\x80\x00\x00\x00"),
        (True, b"t\x01"),
        (Decimal(2, 314), b"D\x02\x00\x00\x01\x3a"),
        (None, b"V"),
        (b"\xff", b"S\x00\x00\x00\x01\xff"),
    ],
)
def test_a_value_goes_out_by_its_kind(value: FieldValue, wire: bytes) -> None:
    assert encode_value(value) == wire
    assert skip_value(wire, 0, len(wire)) == len(wire)


@pytest.mark.parametrize(
    "value",
    [1 << 63, -(1 << 63) - 1, Int8(128), UInt32(-1), Decimal(256, 0), Decimal(0, 1 << 32), {1}],
)
def test_what_no_kind_holds_is_refused(value: FieldValue) -> None:
    with pytest.raises(ValueError, match=r"fit|holds"):
        encode_value(value)


@pytest.mark.parametrize(
    "wire",
    [
        b"\x01a",
        b"\x05aV",
        b"\x01aS\x00\x00",
        b"\x01aS\x00\x00\x00\x02x",
        b"\x01aI\x00",
        b"\x01aU\x00\x00",
    ],
)
def test_a_table_that_ends_too_soon_or_has_a_kind_of_nobody_is_malformed(wire: bytes) -> None:
    with pytest.raises(Malformed):
        decode_table(wire)
    with pytest.raises(Malformed):
        list(walk_entries(wire))


def test_a_short_string_has_at_most_255_bytes() -> None:
    assert encode_short_string("ü" * 127 + "x") == b"\xff" + ("ü" * 127 + "x").encode()
    with pytest.raises(ValueError, match="256 bytes"):
        encode_short_string("ü" * 128)
