"""`hp.parser`'s decoder: values to rows, refusals with their reasons, faults of the function."""

import pickle
from datetime import UTC, datetime
from traceback import format_exception
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark import cloudpickle

from headrace.arrow.typed.decoder import TypedRows, WrongRowError
from headrace.arrow.typed.typed_rows import DecoderError, Mode, RefusedRecordError, TypedRanges
from headrace.pipeline.function_decoder import FunctionDecoder
from headrace.pipeline.unreadable import Unreadable
from headrace.spark.source.parsed_values import ParsedValues

SCHEMA = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", tz="UTC"))])


def parse(value: bytes) -> tuple[Any, ...]:
    match value:
        case b"bad":
            raise Unreadable("no good")
        case b"null":
            return None, None
        case b"short":
            return (1,)
        case b"text":
            return "one", None
    return int(value), datetime.fromtimestamp(int(value), UTC)


def decode(*values: bytes | None) -> TypedRows:
    (rows,) = FunctionDecoder(parse, SCHEMA, [0]).decode(pa.array(values, pa.binary()))
    return rows


def test_values_become_rows_and_records_without_a_value_do_not() -> None:
    rows = decode(b"5", None, b"bad", b"7", b"null")
    assert rows.batch.schema == SCHEMA
    assert rows.batch.column("id").to_pylist() == [5, 7]
    assert rows.batch.column("at").to_pylist()[0] == datetime.fromtimestamp(5, UTC)
    assert rows.rows.tolist() == [0, 3]
    assert rows.refused.numbers().tolist() == [2, 4]
    assert [(each.row, each.path, each.words) for each in rows.refused] == [
        (2, "", "no good"), (4, "id", "id: null, but NOT NULL"),
    ]  # fmt: skip


def test_an_array_without_values_has_no_rows() -> None:
    for values in ((), (None, None), (b"bad",)):
        assert len(decode(*values).batch) == 0
        assert decode(*values).batch.schema == SCHEMA


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"short", "the parser returned 1 values for 2 columns"),
        (b"text", "the parser returned 'one' for column id, which is no int64"),
    ],
)
def test_a_wrong_row_is_a_fault_of_the_parser_at_its_record(value: bytes, text: str) -> None:
    with pytest.raises(WrongRowError, match=text) as raised:
        decode(None, b"bad", b"3", value)
    assert raised.value.row == 3


def test_another_exception_of_the_parser_names_its_record() -> None:
    with pytest.raises(ValueError, match="invalid literal for int") as raised:
        list(ranges(Mode.QUARANTINE, []).rows([batch(b"5", b"bad", b"x", b"y")]))
    assert raised.value.__notes__ == ["(record t-1@11)"]
    text = "".join(format_exception(raised.value))
    assert text.count("Traceback") == 1, "the last frame is the parser's"
    assert text.splitlines()[-2:] == [
        "ValueError: invalid literal for int() with base 10: b'x'", "(record t-1@11)",
    ]  # fmt: skip


def ranges(mode: Mode, refused: list[int]) -> TypedRanges:
    decoder = FunctionDecoder(parse, SCHEMA, [0])
    pickled = cloudpickle.dumps(decoder)  # type: ignore[no-untyped-call]
    values = ParsedValues("id BIGINT NOT NULL, at TIMESTAMP", "aa", SCHEMA, pickled, mode=mode)
    pickle.loads(pickle.dumps(values))
    return TypedRanges(
        values, ("offset", "value"), "t-1", lambda piece, _: refused.extend(piece.refused.numbers())
    )


def batch(*values: bytes | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array(values, pa.binary()), pa.array(range(9, 9 + len(values)), pa.int64())],
        names=["value", "offset"],
    )


def test_a_task_has_rows_for_accepted_values_and_for_records_without_one() -> None:
    refused: list[int] = []
    (rows,) = ranges(Mode.QUARANTINE, refused).rows([batch(b"bad", None, b"5", b"null")])
    assert rows.schema.names == ["id", "at", "_offset", "_value"]
    assert rows.column("id").to_pylist() == [None, 5]
    assert rows.column("_offset").to_pylist() == [10, 11]
    assert rows.column("_value").to_pylist() == [None, b"5"]
    assert refused == [0, 3]
    with pytest.raises(RefusedRecordError, match="t-1@10: no good"):
        list(ranges(Mode.FAILFAST, []).rows([batch(b"5", b"bad")]))
    with pytest.raises(DecoderError, match="t-1@10: the parser returned 1 values for 2 columns"):
        list(ranges(Mode.QUARANTINE, []).rows([batch(b"5", b"short")]))
