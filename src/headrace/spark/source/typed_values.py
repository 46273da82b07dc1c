"""The source's options for typed rows (`headrace.arrow.typed.typed_rows`)."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from headrace.arrow.typed.typed_rows import (
    CORRUPT,
    Decoding,
    Mode,
    RefusedRecordError,
    TypedRanges,
    TypedValues,
)
from headrace.spark.errors import OptionError, RefusedValueError
from headrace.spark.given_options import GivenOptions
from headrace.spark.quarantine.options import (
    SOURCE_NAMES,
    SourceQuarantine,
    digest_of_schema,
    refuse_without_spool,
    source_quarantine,
)
from headrace.spark.source.parsed_values import ParsedValues, given_parser
from headrace.typed.ddl import SchemaError

UNKNOWN_KEYS = "unknownKeyCounts"
"""The option with the directory for counts of keys that the schema does not declare."""


def given_typed(given: GivenOptions, columns: Sequence[str]) -> TypedValues | ParsedValues | None:
    """Return how the options say that values are decoded; None for rows of bytes."""
    parsed = given_parser(given)
    if parsed is not None:
        return parsed
    ddl = given.text("valueSchema")
    if ddl is None:
        for name in ("mode", "columnNameOfCorruptRecord", UNKNOWN_KEYS, *SOURCE_NAMES):
            if name in given:
                raise OptionError(f"{name}: only with valueSchema")
        return None
    modes = {mode.value: mode for mode in Mode}
    typed = TypedValues(
        ddl,
        given.choice("mode", modes, Mode.FAILFAST),
        given.text("columnNameOfCorruptRecord") or CORRUPT,
    )
    try:
        return typed.checked(columns)
    except SchemaError as error:
        raise OptionError(f"valueSchema: {error}") from None


def given_unknown_keys(given: GivenOptions) -> str | None:
    """Return the directory for counts of undeclared keys; None without one. OptionError."""
    text = given.text(UNKNOWN_KEYS)
    if text is not None and not text.startswith("/"):
        raise OptionError(f"{UNKNOWN_KEYS}: {text!r} is not an absolute path")
    return text


def given_quarantine(
    given: GivenOptions, typed: TypedValues | ParsedValues | None
) -> SourceQuarantine | None:
    """Return the options of mode=QUARANTINE; None in other modes. Raises OptionError."""
    if typed is not None and typed.mode is Mode.QUARANTINE:
        if isinstance(typed, ParsedValues):
            return source_quarantine(given, typed.digest)
        return source_quarantine(given, digest_of_schema(typed.ddl))
    refuse_without_spool(given, SOURCE_NAMES)
    return None


def typed_row_schema(typed: Decoding, columns: Sequence[str]) -> StructType:
    """Return the Spark schema of typed rows."""
    return from_arrow_schema(typed.schema(columns), prefer_timestamp_ntz=True)


def typed_rows(
    typed: Decoding, columns: Sequence[str], place: str, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the typed rows of a task; SourceError for a refused value that ends the query."""
    try:
        yield from TypedRanges(typed, columns, place).rows(batches)
    except RefusedRecordError as error:
        raise RefusedValueError(
            f"{error}. Options: mode=PERMISSIVE makes its fields null, mode=DROPMALFORMED leaves"
            " it out, mode=QUARANTINE moves it to the topic's quarantine"
        ) from error
