"""Keys that a schema does not declare, counted by name."""

import json

import pyarrow as pa
import pytest

from headrace.arrow.typed import json_decoder
from headrace.arrow.typed.json_decoder import JsonDecoder
from headrace.arrow.typed.typed_rows import Mode, TypedRanges, TypedValues
from headrace.kernels.json.layout import UNKNOWN_NAMES

pytest.importorskip("numba")


def decoded(ddl: str, *values: bytes | None) -> JsonDecoder:
    decoder = JsonDecoder(ddl)
    list(decoder.decode(pa.array(values, pa.binary())))
    return decoder


def test_keys_are_counted_by_name() -> None:
    decoder = decoded(
        "a INT",
        b'{"a":1}',
        b'{"b":1,"c":{"d":1},"a":2}',
        None,
        b'{"A":1,"b":[{"x":1}]}',
        b'{"b":0}',
    )
    assert decoder.unknown_names == {"b": 3, "c": 1, "A": 1}
    assert decoder.unknown_keys == 5


def test_keys_of_structs_have_their_path() -> None:
    ddl = "s STRUCT<x: INT>, l ARRAY<STRUCT<x: INT>>, x INT"
    record = b'{"s":{"y":1,"x":2},"l":[{"y":1},{"z":1,"y":2}],"y":3}'
    assert decoded(ddl, record).unknown_names == {"s.y": 1, "l[].y": 2, "l[].z": 1, "y": 1}


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 16, 63, 64])
def test_names_are_told_apart_by_each_byte(size: int) -> None:
    names = {"n" * size, *("n" * place + "m" + "n" * (size - place - 1) for place in range(size))}
    records = [json.dumps(dict.fromkeys([name], 1)).encode() for name in names]
    found = [decoded("a INT", *records[at : at + 20]) for at in range(0, len(records), 20)]
    assert dict.fromkeys(names, 1) == {
        name: count for each in found for name, count in each.unknown_names.items()
    }


def test_names_with_escapes_and_beyond_ascii_are_decoded() -> None:
    decoder = decoded("a INT", rb'{"gr\u00f6\u00dfe":1}', '{"größe":2,"\\n":1}'.encode())
    assert decoder.unknown_names == {"größe": 2, "\n": 1}


def test_refused_records_count_too_and_keys_of_a_batch_do_not_reach_the_next() -> None:
    decoder = decoded("a INT", b'{"b":1,"a":"x"}', b'{"c":1}')
    assert decoder.unknown_names == {"b": 1, "c": 1}
    list(decoder.decode(pa.array([b'{"c":1}', b'{"a":1}'], pa.binary())))
    assert decoder.unknown_names == {"b": 1, "c": 2}


def test_number_of_names_is_bounded_and_the_total_is_exact(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = [f"k{number}" for number in range(UNKNOWN_NAMES + 10)]
    records = [json.dumps({name: 1}).encode() for name in names for _ in range(2)]
    decoder = decoded("a INT", *records)
    assert decoder.unknown_names == dict.fromkeys(names[:UNKNOWN_NAMES], 2)
    assert decoder.unknown_keys == len(records)
    monkeypatch.setattr(json_decoder, "UNKNOWN_NAMES_MAX", 3)
    assert len(decoded("a INT", *records).unknown_names) == 3
    wide = json.dumps({f"k{number % 3}" + "x" * (number // 3): 1 for number in range(90)}).encode()
    found = decoded("a INT", wide, wide)
    assert (found.unknown_keys, set(found.unknown_names.values())) == (180, {2})


def test_records_that_are_decoded_again_for_lack_of_memory_count_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(json_decoder, "ARENA_BYTES", 1 << 12)
    value = json.dumps({"b": 1, "l": list(range(300)), "c": 2}).encode()
    records = [value] * 40
    decoder = decoded("l ARRAY<BIGINT>", *records)
    assert decoder.unknown_names == {"b": 40, "c": 40}
    assert decoder.unknown_keys == 80


def test_a_range_reports_its_names_once_at_its_end() -> None:
    reported: list[dict[str, int]] = []
    typed = TypedValues(
        "a INT", Mode.DROPMALFORMED, on_unknown=lambda names: reported.append(dict(names))
    )

    def batches() -> list[pa.RecordBatch]:
        values = pa.array([b'{"b":1}', b'{"a":1}'], pa.binary())
        offsets = pa.array([0, 1], pa.int64())
        return [pa.RecordBatch.from_arrays([values, offsets], ["value", "offset"])] * 2

    rows = TypedRanges(typed, ("offset",), "t-0").rows(batches())
    next(rows)
    assert reported == []
    list(rows)
    assert reported == [{"b": 2}]
