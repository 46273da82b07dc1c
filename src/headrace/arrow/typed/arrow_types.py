"""Arrow's types for the types of a typed topic's schema, as Spark has them."""

import pyarrow as pa

from headrace.typed.types import ColumnType, Field, Kind

_PLAIN = {
    Kind.STRING: pa.string(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.TINYINT: pa.int8(),
    Kind.SMALLINT: pa.int16(),
    Kind.INT: pa.int32(),
    Kind.BIGINT: pa.int64(),
    Kind.FLOAT: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    Kind.TIMESTAMP_NTZ: pa.timestamp("us"),
    Kind.DATE: pa.date32(),
    Kind.BINARY: pa.binary(),
}


def arrow_type(column: ColumnType) -> pa.DataType:
    """Return the Arrow type of a column."""
    match column.kind:
        case Kind.STRUCT:
            return pa.struct(list(map(_field, column.fields)))
        case Kind.ARRAY:
            return pa.list_(_field(column.part))
        case Kind.MAP:
            return pa.map_(pa.string(), _field(column.part))
        case Kind.DECIMAL:
            return pa.decimal128(column.precision, column.scale)
    return _PLAIN[column.kind]


def arrow_schema(schema: ColumnType) -> pa.Schema:
    """Return the Arrow schema of a record."""
    return pa.schema(list(map(_field, schema.fields)))


def _field(field: Field) -> pa.Field:
    return pa.field(field.name, arrow_type(field.type), field.nullable)
