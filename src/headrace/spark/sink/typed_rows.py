"""Rows of a typed topic: the fields of `valueSchema` are columns, or a STRUCT column `value`.

id BIGINT, amount DOUBLE            columns id, amount, and those of the record: key, topic, …
value STRUCT<id BIGINT, …>          null is a tombstone; other columns as without valueSchema
"""

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructType

from headrace.arrow.read.columns import TYPES as RECORD_TYPES
from headrace.arrow.typed.json_encoder import JsonEncoder
from headrace.arrow.typed.typed_rows import PREFIX
from headrace.spark.errors import OptionError
from headrace.typed.ddl import SchemaError

VALUE = "value"
TYPES = {
    "topic": ("string",),
    "key": ("string", "binary"),
    VALUE: ("string", "binary"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
}
"""Spark's types of the columns of a record."""
_READ = frozenset(PREFIX + name for name in RECORD_TYPES)
"""Columns that the source adds to typed rows: they are not written again."""


@dataclass(frozen=True)
class ValueEncoding:
    """How a row's value is made; pickled to the tasks."""

    ddl: str
    fields: tuple[str, ...] = ()
    """The columns that are its fields; empty: `value` is a STRUCT of them."""

    @cached_property
    def _encoder(self) -> JsonEncoder:
        return JsonEncoder(self.ddl)

    def values(self, rows: pa.RecordBatch) -> pa.Array:
        """Return the JSON of each row, of type `binary`. Raises RowError, which names a column."""
        value = rows.column(VALUE) if not self.fields else _struct(rows, self.fields)
        return self._encoder.encode(value)


def _struct(rows: pa.RecordBatch, fields: tuple[str, ...]) -> pa.StructArray:
    columns = [rows.column(name) for name in fields]
    return pa.StructArray.from_arrays(columns, fields=[rows.schema.field(name) for name in fields])


def value_encoding(schema: StructType, ddl: str) -> ValueEncoding:
    """Return how rows with this Spark schema are encoded by a DDL.

    Raises OptionError for a DDL that cannot be parsed, and for a column that is missing, undeclared
    or of another type.
    """
    try:
        encoder = JsonEncoder(ddl)
    except SchemaError as error:
        raise OptionError(f"valueSchema: {error}") from None
    found = {field.name: field.dataType for field in schema.fields}
    if isinstance(found.get(VALUE), StructType):
        fields: tuple[str, ...] = ()
        kind = found[VALUE]
    else:
        fields = tuple(field.name for field in encoder.schema.fields)
        _check_names(list(found), fields)
        kind = StructType([field for field in schema.fields if field.name in fields])
    problem = encoder.problem(to_arrow_type(kind, timezone="UTC"))
    if problem is not None:
        raise OptionError(f"valueSchema: {problem}")
    return ValueEncoding(ddl, fields)


def _check_names(found: list[str], fields: tuple[str, ...]) -> None:
    for name in fields:
        if name in TYPES:
            raise OptionError(
                f"valueSchema: {name} is also a column of the record: put the fields in a struct"
                f" column {VALUE}"
            )
    for name in found:
        if name == VALUE:
            raise OptionError(
                f"valueSchema: the column {VALUE} must be a struct of the schema's fields, or left"
                " out if the fields are columns"
            )
        if name not in fields and name not in TYPES and name not in _READ:
            raise OptionError(
                f"valueSchema: {name}: the schema does not declare this column: add it to the"
                " schema, or drop it"
            )
