"""The columns that a write may have, validated before anything is written (Spark's connector's
rules)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.spark.errors import OptionError
from headrace.spark.sink.typed_rows import TYPES, ValueEncoding, value_encoding

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class SinkColumns:
    """How rows become records; pickled to the tasks."""

    record: tuple[str, ...]
    """Columns of the record that are written as they are."""
    encoding: ValueEncoding | None = None
    """How the value is encoded; None: it is the column `value`."""


def check_columns(schema: "StructType", topic: str | None, ddl: str | None = None) -> SinkColumns:
    """Return how rows are written, without unknown columns. `ddl`: the option `valueSchema`.

    Raises OptionError.
    """
    found = {field.name: field.dataType.simpleString() for field in schema.fields}
    encoding = None if ddl is None else value_encoding(schema, ddl)
    if "value" not in found and encoding is None:
        raise OptionError("value: there is no such column, and nothing else that could be written")
    if topic is None and "topic" not in found:
        raise OptionError("topic: missing; give the option topic, or a column topic")
    record = [name for name in found if name in TYPES and (encoding is None or name != "value")]
    for name in record:
        if found[name] not in (*TYPES[name], "void"):
            advice = "; valueSchema encodes a struct" if found[name].startswith("struct") else ""
            raise OptionError(
                f"{name}: the column is {found[name]}, and must be {' or '.join(TYPES[name])}"
                + (advice if name == "value" else "")
            )
    kept = tuple(name for name in record if name != "topic" or topic is None)
    return SinkColumns(kept, encoding)
