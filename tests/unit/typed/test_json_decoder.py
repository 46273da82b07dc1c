"""The JSON decoder on whole arrays: pieces, key orders, wide and deep schemas, words."""

import json
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.arrow.typed import json_decoder
from headrace.arrow.typed.json_decoder import JsonDecoder
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
