"""The JSON decoder on whole arrays: pieces, key orders, wide and deep schemas, words."""

import json
import tracemalloc
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.arrow.typed import json_decoder
from headrace.arrow.typed.json_decoder import JsonDecoder
from headrace.kernels.choose import numba_unwanted
from headrace.typed.plain import decode_record
from tests.support.same_values import same

pytest.importorskip("numba")


def decode(ddl: str, records: list[bytes | None]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return all rows and the words of all refusals."""
    rows: list[dict[str, Any]] = []
    words: list[str] = []
    for found in JsonDecoder(ddl).decode(pa.array(records, pa.binary())):
        found.batch.validate(full=True)
        rows += found.batch.to_pylist()
        words += [refused.words for refused in found.refused]
    return rows, words


def test_values_that_exceed_the_arena_come_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_decoder, "ARENA_BYTES", 2_000)
    records: list[bytes | None] = [
        json.dumps({"s": "x" * (number % 700), "a": list(range(number % 9))}).encode()
        for number in range(300)
    ]
    records[7] = None
    records[8] = b"junk"
    decoder = JsonDecoder("s STRING, a ARRAY<INT>")
    pieces = list(decoder.decode(pa.array(records, pa.binary())))
    assert len(pieces) > 20
    rows = [row for piece in pieces for row in piece.batch.to_pylist()]
    assert rows == [json.loads(record) for record in records if record not in (None, b"junk")]
    numbers = np.concatenate([piece.rows for piece in pieces]).tolist()
    assert numbers == [number for number in range(300) if number not in (7, 8)]
    assert [refused.row for piece in pieces for refused in piece.refused] == [8]


def peak_bytes(decoder: JsonDecoder, records: list[bytes]) -> tuple[int, int]:
    """Return the most memory that decoding asks for, and the bytes of the rows."""
    values, size = pa.array(records, pa.binary()), 0
    list(decoder.decode(pa.array([b"{}"], pa.binary())))
    tracemalloc.start()
    try:
        for found in decoder.decode(values):
            found.batch.validate(full=True)
            assert not found.refused
            size += found.batch.nbytes
            del found
        return tracemalloc.get_traced_memory()[1], size
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", ["BIGINT", "STRING", "ARRAY<STRING>", "MAP<STRING, INT>"])
def test_memory_for_a_large_record_of_a_wide_schema_is_bounded(kind: str) -> None:
    names = [f"f{number}" for number in range(300)]
    value = {"BIGINT": 7, "STRING": "seven", "ARRAY<STRING>": ["a", "b"]}.get(kind, {"a": 1})
    element = json.dumps(dict.fromkeys(names, value), separators=(",", ":"))
    record = b'{"a":[%s]}' % ",".join([element] * ((1 << 20) // len(element))).encode()
    ddl = f"a ARRAY<STRUCT<{', '.join(f'{name}: {kind}' for name in names)}>>"
    # Each element of two bytes, all texts in one column: gigabytes for a record that needs 1 MB.
    peak, size = peak_bytes(JsonDecoder(ddl), [record])
    assert peak < 3 * json_decoder.ARENA_BYTES
    assert size < 2 * len(record)


@pytest.mark.parametrize("large", ["elements", "text", "key"])
def test_memory_for_a_record_follows_what_its_rows_need(
    large: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_decoder, "ARENA_BYTES", 100_000)
    fields = ", ".join(f"f{number}: STRING" for number in range(40))
    ddl = f"a ARRAY<STRUCT<{fields}>>, m MAP<STRING, INT>"
    text = b"x" * 400_000
    record = {
        "elements": b'{"a":[%s]}' % b",".join([b"{}"] * 40_000),
        "text": b'{"a":[{"f3":"%s"}]}' % text,
        "key": b'{"m":{"%s":1}}' % text,
    }[large]
    decoder = JsonDecoder(ddl)
    rows = [row for found in decoder.decode(pa.array([record])) for row in found.batch.to_pylist()]
    assert same(rows, [decode_record(record, decoder.schema)])
    peak, size = peak_bytes(decoder, [record])
    assert peak < 3 * size + 6_000_000, "of these 4 MB are the table of keys"
    small = b'{"a":[{"f1":"y"}],"m":{"k":1}}'
    peak, _ = peak_bytes(decoder, [small] * 100)
    assert peak < 400_000, "a later record does not pay for it"


def test_parts_that_end_where_memory_does_lose_and_double_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fields = ", ".join(f"f{number}: STRING" for number in range(40))
    schema = f"n INT, a ARRAY<STRUCT<{fields}>>"
    records: list[bytes | None] = [
        json.dumps(
            {"n": number, "u": 0, "a": [{"f1": "y" * (number % 50)}] * (number % 7)}
        ).encode()
        for number in range(2_000)
    ]
    records[::100] = [None] * 20
    records[50::100] = [b'{"n":1,"u":0,"a":[{"f1":"z"},{"f2":0}]}'] * 20
    values = pa.array(records, pa.binary())
    whole = JsonDecoder(schema)
    (expected,) = whole.decode(values)
    monkeypatch.setattr(json_decoder, "ARENA_BYTES", 40_000)
    decoder = JsonDecoder(schema)
    parts = list(decoder.decode(values))
    assert len(parts) > 5
    assert pa.Table.from_batches([part.batch for part in parts]).equals(
        pa.Table.from_batches([expected.batch])
    )
    assert np.concatenate([part.rows for part in parts]).tolist() == expected.rows.tolist()
    assert [each for part in parts for each in part.refused] == list(expected.refused)
    assert decoder.unknown_keys == whole.unknown_keys == 1_980
    if not numba_unwanted():
        assert decoder.unknown_names == whole.unknown_names == {"u": 1_980}


def test_parts_end_before_the_last_records_too(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = ", ".join(f"f{number}: STRING" for number in range(40))
    schema = f"n INT, a ARRAY<STRUCT<{fields}>>"
    # The last records of an array are decoded from a copy, after the others of their part.
    records = [b'{"n":%d,"a":[%s]}' % (n, b",".join([b"{}"] * (n * 7 % 40))) for n in range(60)]
    monkeypatch.setattr(json_decoder, "ARENA_BYTES", 20_000)
    for size in range(20, 60):
        parts = list(JsonDecoder(schema).decode(pa.array(records[:size], pa.binary())))
        assert len(parts) > 2
        rows = [row for part in parts for row in part.batch.to_pylist()]
        assert [row["n"] for row in rows] == list(range(size))
        assert [len(row["a"]) for row in rows] == [n * 7 % 40 for n in range(size)]


def test_rows_stay_as_they_are_while_later_ones_are_decoded() -> None:
    decoder = JsonDecoder("s STRING")
    first = [piece.batch for piece in decoder.decode(pa.array([b'{"s":"first"}']))]
    list(decoder.decode(pa.array([b'{"s":"other"}'] * 100)))
    assert first[0].to_pylist() == [{"s": "first"}]


def test_keys_in_any_order_reach_their_columns() -> None:
    random = Random(5)
    names = [f"column {number}" for number in range(100)]
    records: list[bytes | None] = []
    expected = []
    for number in range(200):
        chosen = random.sample(names, random.choice((0, 50, 100)))
        row = dict.fromkeys(chosen, number)
        records.append(json.dumps(row).encode())
        expected.append({name: row.get(name) for name in names})
    rows, words = decode(", ".join(f"`{name}` INT" for name in names), records)
    assert (rows, words) == (expected, [])


def test_equal_keys_of_a_large_map_are_found() -> None:
    pairs = [(f"key {number}", number) for number in range(20_000)]
    sound = json.dumps(dict(pairs)).encode()
    twice = sound[:-1] + b',"key 7":1}'
    nested = b'{"m":{"a":{"x":1,"y":2},"b":{"x":1},"c":{"x":1,"x":2}}}'
    rows, words = decode("m MAP<STRING, INT>", [b'{"m":%s}' % sound, b'{"m":%s}' % twice])
    assert [row["m"] for row in rows] == [pairs]
    assert words == [f"m[]: given twice (byte {len(sound) + 5})"]
    sound = nested[: nested.index(b',"c"')] + b"}}"
    rows, words = decode("m MAP<STRING, MAP<STRING, INT>>", [nested, sound])
    assert [name for name, _ in rows[0]["m"]] == ["a", "b"]
    at = nested.rindex(b'"x"')
    assert words == [f"m[][]: given twice (byte {at})"]


def test_maps_inside_of_a_map_do_not_hide_its_equal_keys() -> None:
    inner = {str(number): number for number in range(1_000)}
    # Few slots of the table of keys are free, so that some of the many keys share one.
    for number in range(80):
        sound = json.dumps({f"first {number}": {}, "second": inner}).encode()
        record = b'{"m":%s,"first %d":{}}}' % (sound[:-1], number)
        rows, (word,) = decode("m MAP<STRING, MAP<STRING, INT>>", [record])
        assert rows == []
        assert word.startswith("m[]: given twice")


def test_a_schema_as_deep_as_the_ddl_allows_is_decoded() -> None:
    ddl = "a " + "ARRAY<" * 32 + "INT" + ">" * 32
    rows, words = decode(ddl, [b'{"a":' + b"[" * 32 + b"7" + b"]" * 32 + b"}"])
    value = rows[0]["a"]
    for _ in range(32):
        (value,) = value
    assert (value, words) == (7, [])


def test_a_refused_record_leaves_nothing_in_nested_columns() -> None:
    ddl = "a ARRAY<STRUCT<s: STRING, n: TINYINT>>, m MAP<STRING, STRING>"
    sound = b'{"a":[{"s":"x","n":1},{"n":2}],"m":{"k":"v"}}'
    broken = b'{"a":[{"s":"yyyyyy","n":1},{"s":"z"}],"m":{"k":"v","l":"w"},"a":1}'
    rows, words = decode(ddl, [sound, broken, broken, sound])
    expected = decode_record(sound, JsonDecoder(ddl).schema)
    assert len(rows) == 2
    assert all(same(row, expected) for row in rows)
    assert words == ["a: given twice (byte 60)"] * 2


@pytest.mark.parametrize("setting", ["0", "1"])
def test_decoders_with_and_without_numba_say_the_same(
    setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_NUMBA", setting)
    records = [b'{"a":"1"}', b'{"a":1,"m":{"x":[1,"2"]}}', None, b'{"a":1', b'{"a":7}']
    rows, words = decode("a INT, m MAP<STRING, ARRAY<INT>>", records)
    assert rows == [{"a": 7, "m": None}]
    assert words == [
        'a: expected an integer, got "1" (byte 5)',
        'm[][]: expected an integer, got "2" (byte 19)',
        "not JSON: unexpected the end (byte 6)",
    ]


def test_undeclared_keys_are_counted() -> None:
    decoder = JsonDecoder("a INT")
    list(decoder.decode(pa.array([b'{"a":1}', b'{"b":1,"c":{"d":1},"a":2}', b'{"A":1}'])))
    assert decoder.unknown_keys == 3


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.string()])
def test_any_type_of_bytes_is_decoded(kind: pa.DataType) -> None:
    (found,) = JsonDecoder("a INT").decode(pa.array([b'{"a":1}'], pa.binary()).cast(kind))
    assert found.batch.to_pylist() == [{"a": 1}]
    assert list(JsonDecoder("a INT").decode(pa.array([], kind))) == []


def test_excerpts_are_short_and_printable() -> None:
    _, words = decode(
        "a INT", [b'{"a":"%s"}' % (b"x" * 500), b'{"a":"\x7f\\u0000"}', b'{"a":{"b":1}}']
    )
    assert words == [
        f'a: expected an integer, got "{"x" * 38}… (byte 5)',
        'a: expected an integer, got "\\x7f\\u0000" (byte 5)',
        "a: expected an integer, got { (byte 5)",
    ]
