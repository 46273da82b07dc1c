"""`valueSchema` of the sink: columns or a struct become values, and what is refused."""

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from headrace.arrow.typed.arrow_types import arrow_schema
from headrace.arrow.write.encode import RowError
from headrace.spark.errors import OptionError
from headrace.spark.sink.sink_columns import check_columns
from headrace.spark.sink.sink_task import _gathered
from headrace.typed.ddl import parse_ddl
from tests.support.spark.sink_parts import sink

DDL = "id BIGINT NOT NULL, at TIMESTAMP, tags ARRAY<STRING>"


def spark_type(ddl: str) -> StructType:
    schema: StructType = from_arrow_schema(arrow_schema(parse_ddl(ddl)), prefer_timestamp_ntz=True)
    return schema


def written(ddl: str, schema: str, rows: pa.RecordBatch, topic: str | None = "t") -> list[Any]:
    """Return the records' columns of a task that writes these rows."""
    columns = check_columns(spark_type(schema), topic, ddl)
    (found,) = _gathered(iter([rows.slice(0, 0), rows]), columns)
    records: list[Any] = found.to_pylist()
    return records


def test_columns_become_the_fields_of_the_value() -> None:
    rows = pa.RecordBatch.from_pydict(
        {"tags": [["a"], None], "key": [b"k", None], "id": [1, 2], "_offset": [5, 6],
         "at": pa.array([0, None], pa.timestamp("us", "UTC")), "topic": ["x", "y"]}
    )  # fmt: skip
    schema = "tags ARRAY<STRING>, key BINARY, id BIGINT, _offset BIGINT, at TIMESTAMP, topic STRING"
    first = {"key": b"k", "value": b'{"id":1,"at":"1970-01-01T00:00:00Z","tags":["a"]}'}
    second = {"key": None, "value": b'{"id":2,"at":null,"tags":null}'}
    assert written(DDL, schema, rows) == [first, second], "the option topic has precedence"
    of_rows = written(DDL, schema, rows, topic=None)
    assert [record["topic"] for record in of_rows] == ["x", "y"]


def test_struct_becomes_the_value_and_a_null_struct_a_tombstone() -> None:
    kind = pa.struct([("x", pa.int32())])
    rows = pa.record_batch(
        {"value": pa.array([{"x": 1}, None, {"x": None}], kind), "other": [1, 2, 3]}
    )
    assert written("x INT", "value STRUCT<x: INT>, other BIGINT", rows) == [
        {"value": b'{"x":1}'}, {"value": None}, {"value": b'{"x":null}'},
    ]  # fmt: skip


def test_record_columns_may_be_fields_of_a_struct() -> None:
    kind = pa.struct([("key", pa.string()), ("timestamp", pa.int64())])
    rows = pa.record_batch({"key": ["k"], "value": pa.array([{"key": "v", "timestamp": 1}], kind)})
    schema = "key STRING, value STRUCT<key: STRING, timestamp: BIGINT>"
    assert written("key STRING, timestamp BIGINT", schema, rows) == [
        {"key": "k", "value": b'{"key":"v","timestamp":1}'}
    ]


@pytest.mark.parametrize(
    ("ddl", "schema", "words"),
    [
        ("id BIGINT", "id STRING", "id: the column is string, and the schema declares BIGINT"),
        ("id BIGINT", "name STRING", "name: the schema does not declare this column"),
        ("id BIGINT, name STRING", "id BIGINT", "name: the schema declares this column, and rows"),
        ("id BIGINT", "ID BIGINT", "ID: the schema does not declare this column"),
        ("key BIGINT", "key BIGINT", "key is also a column of the record: put the fields"),
        ("value BIGINT", "value BIGINT", "value is also a column of the record"),
        ("id BIGINT", "id BIGINT, value STRING", "the column value must be a struct of"),
        ("id BIGINT", "value STRUCT<id: STRING>", "id: the column is string, and"),
        ("id BIGINT", "value STRUCT<id: BIGINT, x: INT>", "x: the schema does not declare"),
        ("at TIMESTAMP_NTZ", "at TIMESTAMP", "at: the column is timestamp"),
        ("s STRUCT<x: INT>", "s STRUCT<y: INT>", "s.y: the schema does not declare this column"),
    ],
)  # fmt: skip
def test_columns_that_the_schema_does_not_describe_are_refused(
    ddl: str, schema: str, words: str
) -> None:
    with pytest.raises(OptionError) as refused:
        check_columns(spark_type(schema), "t", ddl)
    assert str(refused.value).startswith(f"valueSchema: {words}")


def test_struct_without_a_schema_is_refused_with_advice() -> None:
    with pytest.raises(OptionError, match=r"value: the column is struct.*valueSchema encodes"):
        check_columns(spark_type("value STRUCT<id: BIGINT>"), "t")


def test_other_columns_of_the_record_are_still_checked() -> None:
    with pytest.raises(OptionError, match="partition: the column is bigint"):
        check_columns(spark_type("id BIGINT, partition BIGINT"), "t", "id BIGINT")
    with pytest.raises(OptionError, match="topic: missing"):
        check_columns(spark_type("id BIGINT"), None, "id BIGINT")


def test_value_that_does_not_fit_names_its_column() -> None:
    rows = pa.record_batch({"id": pa.array([1, None], pa.int64())})
    with pytest.raises(RowError, match=r"^id: null, but NOT NULL$"):
        written("id BIGINT NOT NULL", "id BIGINT", rows)
    wide = pa.record_batch({"n": pa.array([300], pa.int64())})
    with pytest.raises(RowError, match=r"^n: a value does not fit TINYINT"):
        written("n TINYINT", "n BIGINT", wide)


def test_schema_that_cannot_be_parsed_is_refused_before_anything_is_written() -> None:
    with pytest.raises(OptionError, match=r"^valueSchema: schema: expected a type"):
        check_columns(spark_type("id BIGINT"), "t", "id LIGHT")
    assert sink(valueSchema="id BIGINT").value_schema == "id BIGINT"
    assert sink().value_schema is None
