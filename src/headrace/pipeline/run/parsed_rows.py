"""Values of a topic that a Python function decodes, as the source's reading tasks do it."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from pyspark import cloudpickle
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from headrace.pipeline.function_decoder import FunctionDecoder
from headrace.pipeline.plan.function_digest import function_digest
from headrace.pipeline.topic_columns import value_columns
from headrace.spark.source.parsed_values import ParsedValues

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.pipeline.declarations import Parser, TopicSource


def parsed_values(
    source: TopicSource, parser: Parser, directory: Path, archive: str = ""
) -> ParsedValues:
    """Return how the values of a topic are decoded by its parser.

    `directory`: the project's. `archive`: name of the file with its modules, which executors have.
    """
    columns = value_columns(source).fields
    # A record without a value has null columns.
    nullable = StructType([StructField(column.name, column.dataType) for column in columns])
    schema = to_arrow_schema(nullable, timezone="UTC")
    required = [number for number, column in enumerate(columns) if not column.nullable]
    decoder = FunctionDecoder(parser.function, schema, required)
    text = f"{source.columns}\n{function_digest(parser.function, directory)}"
    digest = blake2b(text.encode(), digest_size=8).hexdigest()
    pickled = cloudpickle.dumps(decoder)  # type: ignore[no-untyped-call]
    return ParsedValues(source.columns, digest, schema, pickled, archive)
