"""The columns that a write may have, validated before anything is written (Spark's connector's
rules)."""

from typing import TYPE_CHECKING

from headrace.spark.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_TYPES = {
    "topic": ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
}


def check_columns(schema: "StructType", topic: str | None) -> tuple[str, ...]:
    """Return the names of the columns to write, without unknown ones. Raises OptionError."""
    found = {field.name: field.dataType.simpleString() for field in schema.fields}
    if "value" not in found:
        raise OptionError("value: there is no such column, and nothing else that could be written")
    if topic is None and "topic" not in found:
        raise OptionError("topic: missing; give the option topic, or a column topic")
    for name, allowed in _TYPES.items():
        if name in found and found[name] not in (*allowed, "void"):
            raise OptionError(
                f"{name}: the column is {found[name]}, and must be {' or '.join(allowed)}"
            )
    return tuple(name for name in found if name in _TYPES and (name != "topic" or topic is None))
