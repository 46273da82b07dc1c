"""The JSON encoder is the reverse of the decoder: rows of any schema are read back equal."""

import os
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from headrace.arrow.typed.json_decoder import JsonDecoder
from headrace.arrow.typed.json_encoder import JsonEncoder
from tests.support.json_records import Schema
from tests.support.same_values import same

pytest.importorskip("numba")

RECORDS = 200
SCHEMAS = 500 if os.environ.get("HEADRACE_LONG") else 40


def decoded(decoder: JsonDecoder, values: pa.Array) -> tuple[pa.Table, list[str]]:
    """Return all rows, and the words of all refusals."""
    batches, words = [], []
    for found in decoder.decode(values):
        batches.append(found.batch)
        words += [refused.words for refused in found.refused]
    return pa.Table.from_batches(batches, decoder.arrow_schema), words


def structs(rows: pa.Table) -> pa.StructArray:
    """Return rows as one array."""
    table = rows.combine_chunks()
    columns = [
        column.chunk(0) if column.num_chunks else pa.array([], column.type)
        for column in table.columns
    ]
    return pa.StructArray.from_arrays(columns, fields=list(rows.schema))


@pytest.mark.timeout(3600)
def test_rows_of_any_schema_are_read_back_equal() -> None:
    random, compared = Random(7), 0
    for _ in range(SCHEMAS):
        schema = Schema(random)
        records = pa.array([schema.record() for _ in range(RECORDS)], pa.binary())
        decoder, encoder = JsonDecoder(schema.ddl), JsonEncoder(schema.ddl)
        rows, _ = decoded(decoder, records)
        array = structs(rows)
        assert encoder.problem(array.type) is None, schema.ddl
        values = encoder.encode(array)
        again, words = decoded(decoder, values)
        assert words == [], schema.ddl
        before: list[Any] = rows.to_pylist()
        assert same(again.to_pylist(), before), schema.ddl
        # A part of the rows, as Spark sends them, gives the same values.
        part = array.slice(len(array) // 3, len(array) // 3)
        assert encoder.encode(part).equals(values.slice(len(array) // 3, len(part)))
        compared += len(before)
    assert compared > SCHEMAS * RECORDS // 2
