"""The JSON kernel and its twin in plain Python decode and refuse the same records.

HEADRACE_LONG (`make typed-test`): a million damaged records instead of ten thousand.
"""

import os
from random import Random
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from headrace.arrow.typed import json_decoder
from headrace.arrow.typed.json_decoder import JsonDecoder
from headrace.typed.ddl import parse_ddl
from headrace.typed.plain import decode_record
from headrace.typed.refusal import MALFORMED, Refusal
from tests.support.examples import examples
from tests.support.json_records import Schema, damaged, random_number
from tests.support.same_values import same

pytest.importorskip("numba")

LONG = bool(os.environ.get("HEADRACE_LONG"))
DAMAGED = 1_000_000 if LONG else examples(10_000)
SOUND = 100_000 if LONG else examples(5_000)
DOUBLES = 1_000_000 if LONG else examples(50_000)
RECORDS = 250
"""Records of a schema."""


def compare(ddl: str, records: list[bytes | None]) -> tuple[int, int]:
    """Decode in one call and one by one; return how many were decoded and refused."""
    schema, decoder = parse_ddl(ddl), JsonDecoder(ddl)
    values = pa.array([b"before", *records, b"after"], pa.binary()).slice(1, len(records))
    decoded: dict[int, dict[str, Any]] = {}
    refused: dict[int, tuple[Refusal, str]] = {}
    for found in decoder.decode(values):
        found.batch.validate(full=True)
        decoded |= zip(found.rows.tolist(), found.batch.to_pylist(), strict=True)
        refused |= {one.row: (one.refusal, one.words) for one in found.refused}
    for number, record in enumerate(records):
        if record is None:
            assert number not in decoded
            assert number not in refused
            continue
        judged = decode_record(record, schema)
        if isinstance(judged, Refusal):
            assert number in refused, (ddl, record, judged)
            refusal, words = refused[number]
            if judged.fault not in MALFORMED:
                assert refusal == judged, (ddl, record)
            assert words
        else:
            assert number in decoded, (ddl, record, refused.get(number))
            assert same(decoded[number], judged), (ddl, record, decoded[number], judged)
    assert len(decoded) + len(refused) == len(records) - records.count(None)
    return len(decoded), len(refused)


def batches(seed: int, count: int, *, harm: bool) -> tuple[int, int]:
    """Compare records of many schemas; return how many were decoded and refused."""
    decoded = refused = 0
    random = Random(seed)
    for _ in range(count // RECORDS):
        schema = Schema(random)
        records: list[bytes | None] = [schema.record() for _ in range(RECORDS)]
        if harm:
            sound = [record for record in records if record is not None]
            records = [damaged(random, record, random.choice(sound)) for record in sound]
        records[random.randrange(RECORDS)] = None
        outcome = compare(schema.ddl, records)
        decoded, refused = decoded + outcome[0], refused + outcome[1]
    return decoded, refused


@pytest.mark.timeout(3600)
def test_damaged_records_are_decoded_and_refused_alike() -> None:
    decoded, refused = batches(1, DAMAGED, harm=True)
    assert decoded > DAMAGED // 10
    assert refused > DAMAGED // 4


@pytest.mark.timeout(3600)
def test_sound_records_of_any_schema_are_decoded_alike() -> None:
    decoded, refused = batches(2, SOUND, harm=False)
    assert decoded > SOUND // 2
    assert refused > SOUND // 50


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("arena_bytes", [1, 3_000])
def test_records_that_exceed_the_memory_are_decoded_alike(
    arena_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_decoder, "ARENA_BYTES", arena_bytes)
    count = max(SOUND // 10, 2 * RECORDS)
    assert min(batches(5, count, harm=False)) > 0
    assert min(batches(6, count, harm=True)) > 0


@pytest.mark.timeout(3600)
def test_doubles_are_bit_equal_to_pythons() -> None:
    random = Random(3)
    texts = [random_number(random) for _ in range(DOUBLES)]
    texts = [text for text in texts if b"N" not in text and b"I" not in text]
    values = pa.array([b'{"d":%s}' % text for text in texts], pa.binary())
    compared = 0
    for found in JsonDecoder("d DOUBLE").decode(values):
        for row, got in zip(found.rows.tolist(), found.batch["d"].to_pylist(), strict=True):
            assert same(got, float(texts[row])), texts[row]
            compared += 1
        for one in found.refused:
            assert float(texts[one.row]) in {float("inf"), -float("inf")}, texts[one.row]
            compared += 1
    assert compared == len(texts)


def test_a_strict_parser_agrees_which_records_are_sound() -> None:
    # msgspec is not our code and does not use Python's json, which the twin does.
    strict = msgspec.json.Decoder(
        msgspec.defstruct(
            "Row", [("id", int | None, None), ("a", float | None, None), ("x", str | None, None)]
        )
    )
    random = Random(4)
    ddl = "id BIGINT, a DOUBLE, x STRING"
    schema = Schema(random)
    records, kinds = [], (("id", "BIGINT", ""), ("a", "DOUBLE", ""), ("x", "STRING", ""))
    for _ in range(4_000):
        schema.fields = list(kinds)
        records.append(damaged(random, schema.record(), schema.record()))
    (found,) = JsonDecoder(ddl).decode(pa.array(records, pa.binary()))
    decoded = dict(zip(found.rows.tolist(), found.batch.to_pylist(), strict=True))
    differing = 0
    for number, record in enumerate(records):
        try:
            row: Any = strict.decode(record)
        except (msgspec.DecodeError, UnicodeDecodeError):
            differing += number in decoded
            continue
        if number in decoded:
            assert same(decoded[number]["x"], row.x), record
            assert decoded[number]["id"] == row.id, record
        else:
            differing += 1
    # Equal keys, NaN, half surrogates, 1.0 as an integer and 1e400 are decided otherwise.
    assert differing < len(records) // 20
