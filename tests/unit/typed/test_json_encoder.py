"""The JSON encoder: forms of each type, nulls, containers, and errors that name the column."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.arrow.typed.arrow_types import arrow_type
from headrace.arrow.typed.json_decoder import JsonDecoder
from headrace.arrow.typed.json_encoder import JsonEncoder
from headrace.arrow.write.encode import RowError
from headrace.typed.ddl import parse_ddl
from tests.support.same_values import same

FIRST, LAST = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999)


def at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc,arg-type]


def rows_of(ddl: str, rows: list[dict[str, Any] | None]) -> pa.StructArray:
    return pa.array(rows, arrow_type(parse_ddl(ddl)))


def encoded(ddl: str, *rows: dict[str, Any] | None) -> list[bytes | None]:
    values: list[bytes | None] = JsonEncoder(ddl).encode(rows_of(ddl, list(rows))).to_pylist()
    return values


def refusal(ddl: str, *rows: dict[str, Any] | None, kind: pa.DataType | None = None) -> str:
    """Return the error of rows, whose type may be another than the declared one."""
    array = pa.array(list(rows), kind or arrow_type(parse_ddl(ddl)))
    with pytest.raises(RowError) as refused:
        JsonEncoder(ddl).encode(array)
    return str(refused.value)


@pytest.mark.parametrize(
    ("declared", "value", "text"),
    [
        ("BOOLEAN", True, "true"), ("BOOLEAN", False, "false"),
        ("TINYINT", -128, "-128"), ("SMALLINT", 32767, "32767"), ("INT", -(1 << 31), "-2147483648"),
        ("BIGINT", (1 << 63) - 1, "9223372036854775807"),
        ("BIGINT", -(1 << 63), "-9223372036854775808"),
        ("DOUBLE", 0.1, "0.1"), ("DOUBLE", -0.0, "-0"), ("DOUBLE", 5e-324, "5e-324"),
        ("DOUBLE", 1764369135.123456, "1764369135.123456"),
        ("DOUBLE", float("nan"), '"NaN"'), ("DOUBLE", float("inf"), '"Infinity"'),
        ("DOUBLE", -float("inf"), '"-Infinity"'), ("FLOAT", float("nan"), '"NaN"'),
        ("FLOAT", np.float32(0.1), "0.1"), ("FLOAT", -float("inf"), '"-Infinity"'),
        ("DECIMAL(4,2)", Decimal("-12.30"), "-12.30"),
        ("DECIMAL(38,0)", Decimal("9" * 38), "9" * 38),
        ("STRING", "", '""'), ("STRING", 'a"b\\c/é€😀', r'"a\"b\\c/é€😀"'),
        ("STRING", "\x00\x1f\n\x7f", '"\\u0000\\u001f\\n\x7f"'),
        ("BINARY", b"", '""'), ("BINARY", b"\xff\xfe\xfd", '"//79"'), ("BINARY", b"hi", '"aGk="'),
        ("DATE", date(1, 1, 1), '"0001-01-01"'), ("DATE", date(9999, 12, 31), '"9999-12-31"'),
        ("DATE COMMENT 'epoch days'", date(1969, 12, 31), "-1"),
        ("TIMESTAMP", at(2026, 11, 28, 10), '"2026-11-28T10:00:00Z"'),
        ("TIMESTAMP", LAST.replace(tzinfo=UTC), '"9999-12-31T23:59:59.999999Z"'),
        ("TIMESTAMP_NTZ", FIRST, '"0001-01-01T00:00:00"'),
        ("TIMESTAMP_NTZ", datetime(1969, 12, 31, 23, 59, 59, 1), '"1969-12-31T23:59:59.000001"'),
        ("TIMESTAMP COMMENT 'zone UTC'", at(2000, 1, 1), '"2000-01-01T00:00:00Z"'),
        ("TIMESTAMP COMMENT 'epoch s'", at(1970, 1, 1, 0, 0, 10), "10"),
        ("TIMESTAMP COMMENT 'epoch s'", at(1970, 1, 1, 0, 0, 0, 1), "0.000001"),
        ("TIMESTAMP COMMENT 'epoch s'", at(1969, 12, 31, 23, 59, 58, 500_000), "-1.5"),
        ("TIMESTAMP COMMENT 'epoch s'", FIRST.replace(tzinfo=UTC), "-62135596800"),
        ("TIMESTAMP COMMENT 'epoch s'", LAST.replace(tzinfo=UTC), "253402300799.999999"),
        ("TIMESTAMP COMMENT 'epoch ms'", at(1970, 1, 1, 0, 0, 1, 500), "1000.5"),
        ("TIMESTAMP COMMENT 'epoch ms'", at(1970, 1, 1), "0"),
        ("TIMESTAMP COMMENT 'epoch us'", at(1970, 1, 1, 0, 0, 1, 7), "1000007"),
        ("TIMESTAMP COMMENT 'epoch ns'", at(1969, 12, 31, 23, 59, 59, 999_999), "-1000"),
    ],
)  # fmt: skip
def test_each_type_has_one_form_that_decodes_to_the_value(
    declared: str, value: Any, text: str
) -> None:
    ddl = f"v {declared}"
    (record,) = encoded(ddl, {"v": value})
    assert record == f'{{"v":{text}}}'.encode()
    (found,) = JsonDecoder(ddl).decode(pa.array([record]))
    assert not [refused.words for refused in found.refused]
    rows = rows_of(ddl, [{"v": value}]).to_pylist()
    assert same(found.batch.to_pylist(), rows)


def test_floats_are_read_back_bit_by_bit() -> None:
    bits = np.random.default_rng(1).integers(0, 1 << 32, 200_000, np.uint32)
    floats = bits.view(np.float32)
    rows = pa.StructArray.from_arrays([pa.array(floats)], ["v"])
    values = JsonEncoder("v FLOAT").encode(rows)
    batches = [found.batch for found in JsonDecoder("v FLOAT").decode(values)]
    again = np.concatenate([batch["v"].to_numpy() for batch in batches])
    numbers = ~np.isnan(floats)
    assert np.array_equal(again.view(np.uint32)[numbers], bits[numbers])
    assert np.isnan(again[~numbers]).all()


def test_null_fields_are_null_and_null_rows_have_no_value() -> None:
    ddl = "a INT, s STRUCT<x: STRING, y: INT>, l ARRAY<INT>, m MAP<STRING, INT>"
    full = {"a": 1, "s": {"x": "t", "y": None}, "l": [1, None], "m": [("k", None), ("l", 2)]}
    assert encoded(ddl, full, None, dict.fromkeys(full), {**full, "l": [], "m": []}) == [
        b'{"a":1,"s":{"x":"t","y":null},"l":[1,null],"m":{"k":null,"l":2}}',
        None,
        b'{"a":null,"s":null,"l":null,"m":null}',
        b'{"a":1,"s":{"x":"t","y":null},"l":[],"m":{}}',
    ]
    assert encoded(ddl) == []
    assert encoded(ddl, None, None) == [None, None]


def test_columns_without_a_value_are_null() -> None:
    rows = pa.StructArray.from_arrays([pa.nulls(2), pa.array([1, 2])], ["a", "b"])
    encoder = JsonEncoder("a ARRAY<INT>, b BIGINT")
    assert encoder.problem(rows.type) is None
    assert encoder.encode(rows).to_pylist() == [b'{"a":null,"b":1}', b'{"a":null,"b":2}']


def test_names_and_keys_are_escaped() -> None:
    assert encoded(
        '`qu"ote` INT, `zeit€` MAP<STRING, INT>', {'qu"ote': 1, "zeit€": [("\n", 2)]}
    ) == ['{"qu\\"ote":1,"zeit€":{"\\n":2}}'.encode()]


def test_slices_of_nested_columns_are_encoded() -> None:
    ddl = "n INT, l ARRAY<STRUCT<m: MAP<STRING, STRING>>>, s STRUCT<x: INT>"
    rows: list[dict[str, Any]] = [
        {"n": number, "l": [{"m": [(f"k{at}", "v" * at)]} for at in range(number % 4)] or None,
         "s": {"x": number} if number % 3 else None}
        for number in range(50)
    ]  # fmt: skip
    array = rows_of(ddl, [row if row["n"] % 7 else None for row in rows])
    whole = JsonEncoder(ddl).encode(array).to_pylist()
    for begin, size in ((0, 50), (1, 20), (13, 1), (30, 20), (50, 0)):
        part = JsonEncoder(ddl).encode(array.slice(begin, size))
        assert part.to_pylist() == whole[begin : begin + size]


def test_fields_below_a_null_struct_are_not_looked_at() -> None:
    inner = pa.StructArray.from_arrays(
        [pa.array([None, 300, 3])], ["x"], mask=pa.array([True, True, False])
    )
    rows = pa.StructArray.from_arrays([inner], ["s"])
    assert JsonEncoder("s STRUCT<x: TINYINT NOT NULL>").encode(rows).to_pylist() == [
        b'{"s":null}', b'{"s":null}', b'{"s":{"x":3}}',
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "declared"),
    [
        (pa.int64(), "TINYINT"), (pa.int8(), "BIGINT"), (pa.float32(), "DOUBLE"),
        (pa.large_string(), "STRING"), (pa.large_binary(), "BINARY"),
        (pa.decimal128(5, 1), "DECIMAL(38,2)"), (pa.large_list(pa.int16()), "ARRAY<INT>"),
        (pa.timestamp("us", "Europe/Berlin"), "TIMESTAMP"), (pa.timestamp("ms"), "TIMESTAMP_NTZ"),
        (pa.dictionary(pa.int32(), pa.string()), "STRING"),
    ],
)  # fmt: skip
def test_types_that_hold_the_same_values_are_encoded(kind: pa.DataType, declared: str) -> None:
    value: Any = {"STRING": "a", "BINARY": b"a", "ARRAY<INT>": [1]}.get(declared, 1)
    value = Decimal(1) if "DECIMAL" in declared else value
    is_dictionary = pa.types.is_dictionary(kind)
    column = pa.array(["a"]).dictionary_encode() if is_dictionary else pa.array([value], kind)
    rows = pa.StructArray.from_arrays([column], ["v"])
    (record,) = JsonEncoder(f"v {declared}").encode(rows).to_pylist()
    (found,) = JsonDecoder(f"v {declared}").decode(pa.array([record]))
    assert found.batch.num_rows == 1
    assert is_dictionary or JsonEncoder(f"v {declared}").problem(rows.type) is None


@pytest.mark.parametrize(
    ("kind", "declared", "words"),
    [
        (pa.int64(), "STRING", "v: the column is int64, and the schema declares STRING"),
        (pa.float64(), "FLOAT", "v: the column is double, and the schema declares FLOAT"),
        (pa.float64(), "BIGINT", "v: the column is double, and the schema declares BIGINT"),
        (pa.timestamp("us"), "TIMESTAMP", "v: the column is timestamp[us], and"),
        (pa.timestamp("us", "UTC"), "TIMESTAMP_NTZ", "v: the column is timestamp[us, tz=UTC], and"),
        (pa.string(), "BINARY", "v: the column is string, and the schema declares BINARY"),
        (pa.list_(pa.string()), "ARRAY<INT>", "v[]: the column is string, and"),
        (pa.map_(pa.int32(), pa.int32()), "MAP<STRING, INT>", "v[]: the column is int32, and"),
        (pa.map_(pa.string(), pa.bool_()), "MAP<STRING, INT>", "v[]: the column is bool, and"),
        (pa.struct([("x", pa.int32())]), "STRUCT<x: INT, y: INT>", "v.y: the schema declares"),
        (pa.struct([("x", pa.int32()), ("y", pa.int32())]), "STRUCT<x: INT>", "v.y: the"),
        (pa.struct([("x", pa.string())]), "STRUCT<x: INT>", "v.x: the column is string, and"),
        (pa.int32(), "ARRAY<INT>", "v: the column is int32, and the schema declares ARRAY<INT>"),
    ],
)  # fmt: skip
def test_columns_of_another_type_are_named(kind: pa.DataType, declared: str, words: str) -> None:
    found = JsonEncoder(f"v {declared}").problem(pa.struct([("v", kind)]))
    assert found is not None
    assert found.startswith(words)


def test_declared_columns_must_be_there() -> None:
    encoder = JsonEncoder("a INT, b INT")
    kinds = [("a", pa.int32()), ("b", pa.int32())]
    assert encoder.problem(pa.struct(kinds)) is None
    assert encoder.problem(pa.struct(kinds[::-1])) is None, "in any order"
    assert encoder.problem(pa.struct([*kinds, ("c", pa.int32())])) is not None
    assert encoder.problem(pa.struct(kinds[:1])) is not None
    assert encoder.problem(pa.struct([*kinds, ("b", pa.int32())])) is not None, "given twice"


@pytest.mark.parametrize(
    ("ddl", "row", "words"),
    [
        ("a INT, n TINYINT", {"a": 1, "n": 128}, "n: a value does not fit TINYINT: "),
        ("d DECIMAL(4,2)", {"d": Decimal("12.345")}, "d: a value does not fit DECIMAL(4,2): "),
        ("d DECIMAL(4,2)", {"d": Decimal(123)}, "d: a value does not fit DECIMAL(4,2): "),
        ("s STRUCT<l: ARRAY<TINYINT>>", {"s": {"l": [1, 300]}}, "s.l[]: a value does not fit"),
        ("m MAP<STRING, TINYINT>", {"m": [("k", 300)]}, "m[]: a value does not fit TINYINT: "),
    ],
)  # fmt: skip
def test_values_beyond_their_type_are_refused(ddl: str, row: dict[str, Any], words: str) -> None:
    wide = ddl.replace("TINYINT", "INT").replace("DECIMAL(4,2)", "DECIMAL(9,3)")
    assert refusal(ddl, row, kind=arrow_type(parse_ddl(wide))).startswith(words)


@pytest.mark.parametrize(
    ("ddl", "row", "path"),
    [
        ("a INT NOT NULL", {"a": None}, "a"),
        ("s STRUCT<x: STRUCT<y: INT NOT NULL>>", {"s": {"x": {"y": None}}}, "s.x.y"),
        ("l ARRAY<STRUCT<y: INT NOT NULL>>", {"l": [{"y": 1}, {"y": None}]}, "l[].y"),
        ("m MAP<STRING, STRUCT<y: INT NOT NULL>>", {"m": [("k", {"y": None})]}, "m[].y"),
    ],
)
def test_null_in_a_column_that_is_not_null_is_refused(
    ddl: str, row: dict[str, Any], path: str
) -> None:
    assert refusal(ddl, row, kind=arrow_type(parse_ddl(ddl.replace(" NOT NULL", "")))) == (
        f"{path}: null, but NOT NULL"
    )


@pytest.mark.parametrize(
    "declared", ["TIMESTAMP", "TIMESTAMP_NTZ", "DATE", "TIMESTAMP COMMENT 'epoch s'"]
)
@pytest.mark.parametrize("beyond", [-1, 1])
def test_years_that_the_decoder_refuses_are_refused(declared: str, beyond: int) -> None:
    ddl, is_date = f"v {declared}", declared == "DATE"
    kind = arrow_type(parse_ddl(ddl)).field(0).type
    days = (date.min if beyond < 0 else date.max).toordinal() - date(1970, 1, 1).toordinal()
    edge = days if is_date else days * 86_400_000_000 + (beyond > 0) * (86_400_000_000 - 1)
    for number, sound in ((edge, True), (edge + beyond, False)):
        column = pa.array([number], pa.int32() if is_date else pa.int64()).view(kind)
        rows = pa.StructArray.from_arrays([column], ["v"])
        if sound:
            (found,) = JsonDecoder(ddl).decode(JsonEncoder(ddl).encode(rows))
            assert len(found.refused) == 0
        else:
            with pytest.raises(RowError, match=r"^v: a year is not between 1 and 9999$"):
                JsonEncoder(ddl).encode(rows)


def test_epochs_in_nanoseconds_beyond_64_bits_are_refused() -> None:
    ddl = "v TIMESTAMP COMMENT 'epoch ns'"
    assert refusal(ddl, {"v": at(2263, 1, 1)}).startswith("v: a value does not fit")


def test_strings_that_are_not_utf8_are_refused() -> None:
    broken = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"]).buffers())
    rows = pa.StructArray.from_arrays([broken], ["v"])
    with pytest.raises(RowError, match=r"^v: a string has invalid UTF-8$"):
        JsonEncoder("v STRING").encode(rows)
    pairs = pa.MapArray.from_arrays([0, 1], broken, pa.array([1]))
    with pytest.raises(RowError, match=r"^m\[\]: a string has invalid UTF-8$"):
        JsonEncoder("m MAP<STRING, BIGINT>").encode(pa.StructArray.from_arrays([pairs], ["m"]))


def test_key_given_twice_in_one_map_is_refused() -> None:
    ddl = "m MAP<STRING, INT>"
    apart = encoded(ddl, {"m": [("a", 1), ("b", 2)]}, {"m": [("b", 1), ("a", 2)]})
    assert apart == [b'{"m":{"a":1,"b":2}}', b'{"m":{"b":1,"a":2}}']
    rows = [{"m": [("b", 1)]}, {"m": [("a", 1), ("b", 2), ("a", 3)]}]
    assert refusal(ddl, *rows) == "m[]: the key 'a' is given twice"
