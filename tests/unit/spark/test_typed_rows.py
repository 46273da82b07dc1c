"""Typed rows of the source: options, the modes, records without a value."""

import pickle
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from headrace.arrow.typed import json_decoder
from headrace.arrow.typed.typed_rows import Mode, TypedValues
from headrace.spark.errors import OptionError, SourceError
from headrace.spark.source.columns import columns_of, schema_of
from headrace.spark.source.options import Options, parse_options
from headrace.spark.source.typed_values import typed_rows
from headrace.typed import ddl

pytest.importorskip("numba")

RECORDS = [b'{"id":1,"at":"2026-11-28T10:00:00Z"}', b'{"id":"x"}', None, b'{"id":3}', b"junk"]
TIME = datetime(2026, 11, 28, tzinfo=UTC)


def options(**given: str) -> Options:
    named = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "t", **given}
    return parse_options(named, streaming=False)


def rows(ddl: str, mode: Mode, records: list[bytes | None], **more: Any) -> list[dict[str, Any]]:
    batch = pa.record_batch(
        {
            "value": pa.array(records, pa.binary()),
            "offset": pa.array(range(7, 7 + len(records)), pa.int64()),
        }
    )
    (found,) = typed_rows(TypedValues(ddl, mode, **more), ("offset",), "t-0", iter([batch]))
    found.validate(full=True)
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def test_dropmalformed_leaves_refused_records_out() -> None:
    found = rows("id BIGINT, at TIMESTAMP", Mode.DROPMALFORMED, RECORDS)
    assert [(row["id"], row["_offset"]) for row in found] == [(1, 7), (None, 9), (3, 10)]
    assert found[0]["at"] == datetime(2026, 11, 28, 10, tzinfo=UTC)


def test_permissive_makes_fields_null_and_keeps_the_text() -> None:
    found = rows("id BIGINT, _corrupt_record STRING", Mode.PERMISSIVE, RECORDS)
    assert [tuple(row.values()) for row in found] == [
        (1, None, 7), (None, '{"id":"x"}', 8), (None, None, 9), (3, None, 10), (None, "junk", 11),
    ]  # fmt: skip


def test_permissive_needs_no_column_for_the_text() -> None:
    found = rows("id BIGINT NOT NULL", Mode.PERMISSIVE, RECORDS)
    assert [row["id"] for row in found] == [1, None, None, 3, None]
    text = rows("id BIGINT, bad STRING", Mode.PERMISSIVE, [b"\xff"], corrupt="bad")
    assert text == [{"id": None, "bad": "\ufffd", "_offset": 7}]


def test_schema_is_parsed_once_for_all_tasks_of_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    parser = ddl._Parser

    def noted(text: str) -> ddl._Parser:
        parsed.append(text)
        return parser(text)

    monkeypatch.setattr(ddl, "_Parser", noted)
    schema = "only_here BIGINT NOT NULL, _corrupt_record STRING"
    planned = options(valueSchema=schema, mode="PERMISSIVE")
    for _ in range(2):
        typed: TypedValues = pickle.loads(pickle.dumps(planned.typed))
        batch = pa.record_batch({"value": pa.array([b"{}"]), "offset": pa.array([7])})
        assert len(list(typed_rows(typed, ("offset",), "t-0", iter([batch])))) == 1
    assert parsed == [schema]
    other = pickle.loads(pickle.dumps(TypedValues("only_here INT"))).schema(())
    assert other.names == ["only_here"]
    assert parsed == [schema, "only_here INT"], "another schema is parsed by itself"


def test_texts_of_refused_values_stay_in_their_rows() -> None:
    records = [b'{"id":1}', b"\xff", b"caf\xc3\xa9", None, b'{"id":2}', b"a\xffb", b""]
    found = rows("id BIGINT, _corrupt_record STRING", Mode.PERMISSIVE, records)
    assert [(row["id"], row["_corrupt_record"]) for row in found] == [
        (1, None), (None, "\ufffd"), (None, "caf\xe9"), (None, None), (2, None),
        (None, "a\ufffdb"), (None, ""),
    ]  # fmt: skip


def test_failfast_names_partition_offset_and_reason() -> None:
    with pytest.raises(SourceError, match=r'^t-0@8: id: expected an integer, got "x" \(byte 6\)'):
        rows("id BIGINT", Mode.FAILFAST, RECORDS)
    assert rows("id BIGINT", Mode.FAILFAST, [RECORDS[0], None]) == [
        {"id": 1, "_offset": 7},
        {"id": None, "_offset": 8},
    ]


def test_rows_of_several_pieces_are_all_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_decoder, "ARENA_BYTES", 200)
    records = [b'{"id":%d,"s":"%s"}' % (number, b"x" * 60) for number in range(20)]
    given: list[bytes | None] = [*records[:5], None, *records[6:15], b"junk", *records[16:]]
    found = rows("id BIGINT, s STRING, _corrupt_record STRING", Mode.PERMISSIVE, given)
    assert [row["id"] for row in found] == [
        None if number in {5, 15} else number for number in range(20)
    ]
    assert [row["_offset"] for row in found if row["_corrupt_record"]] == [22]
    dropped = rows("id BIGINT, s STRING", Mode.DROPMALFORMED, given)
    assert [row["_offset"] for row in dropped] == [at for at in range(7, 27) if at != 22]
    with pytest.raises(SourceError, match="t-0@22: expected an object"):
        rows("id BIGINT", Mode.FAILFAST, given)


@pytest.mark.parametrize("mode", list(Mode))
def test_a_batch_without_records_gives_no_rows(mode: Mode) -> None:
    assert rows("id BIGINT, a ARRAY<INT>", mode, []) == []
    assert rows("id BIGINT", mode, [None]) == [{"id": None, "_offset": 7}]


def test_all_records_refused_leave_rows_only_where_they_are_wanted() -> None:
    assert rows("id BIGINT", Mode.DROPMALFORMED, [b"", b"[]"]) == []
    assert [row["id"] for row in rows("id BIGINT", Mode.PERMISSIVE, [b"", b"[]"])] == [None, None]


def test_fields_come_first_then_columns_of_the_record() -> None:
    found = options(valueSchema="id BIGINT NOT NULL, at TIMESTAMP_NTZ, m MAP<STRING, DECIMAL(4,2)>")
    schema = schema_of(found)
    assert schema.names == ["id", "at", "m", "_partition", "_offset", "_timestamp"]
    assert [field.nullable for field in schema] == [True, True, True, False, False, False]
    assert schema["at"].dataType.simpleString() == "timestamp_ntz"
    assert found.typed is not None
    assert to_arrow_schema(schema, timezone="UTC") == found.typed.schema(found.columns)
    assert columns_of(found, schema).names == ("value", "offset", "partition", "timestamp")
    chosen = schema_of(options(valueSchema="id BIGINT", columns="key,value"))
    assert chosen.names == ["id", "_key", "_value"]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"mode": "FAILFAST"}, "mode: only with valueSchema"),
        ({"columnNameOfCorruptRecord": "x"}, "columnNameOfCorruptRecord: only with valueSchema"),
        ({"valueSchema": "id BIGINT", "mode": "STRICT"}, "mode: 'STRICT'"),
        ({"valueSchema": "id LIGHT"}, "valueSchema: schema: expected a type"),
        ({"valueSchema": "_offset BIGINT"}, "_offset is a column of the record"),
        ({"valueSchema": "id INT, _corrupt_record INT", "mode": "permissive"}, "must be STRING"),
        ({"valueSchema": "_corrupt_record STRING", "mode": "permissive"}, "no field but"),
    ],
)
def test_an_invalid_option_is_refused_with_its_reason(given: dict[str, str], reason: str) -> None:
    with pytest.raises(OptionError, match=reason):
        options(**given)


def test_a_schema_given_twice_is_refused() -> None:
    typed = options(valueSchema="id BIGINT")
    with pytest.raises(OptionError, match="valueSchema gives the columns"):
        columns_of(typed, schema_of(options()))
