"""The options of `format("headrace-table")`, validated before anything is written."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from urllib.parse import unquote, urlsplit

from headrace.spark.checks.options import (
    CHECKS,
    RowChecks,
    given_checks,
    refuse_without_quarantine,
)
from headrace.spark.errors import OptionError
from headrace.spark.given_options import GivenOptions, perhaps
from headrace.spark.quarantine.options import SINK_NAMES as QUARANTINE_NAMES
from headrace.spark.quarantine.options import SPOOL, SinkQuarantine, sink_quarantine
from headrace.spark.security import CONFIG_FILE, given_client
from headrace.spark.tables.partition import PartitionField, parse_fields

FILE_BYTES = 128 << 20
MERGE_EVERY = 50
"""Default of `mergeEvery` for Delta and Iceberg; 0 for Parquet, whose rows become visible only by
the merge."""
MERGE_BYTES = 1 << 30
DELETE_RETENTION_MS = 7 * 24 * 3600 * 1000
_CODECS = ("zstd", "snappy", "gzip", "lz4", "none")
_NAMES = (
    "tableFormat", "path", "table", "pipeline", "queryName", "checkpointLocation", "txnAppId",
    "txnVersion", "partitionBy", "sortBy", "fileBytesMax", "compression", "mergeEvery",
    "mergeBytesMax", "shared", "upsertBy", "upsertOrder", "deleteWhen",
    "deleteRetentionMs", CHECKS, *QUARANTINE_NAMES,
)  # fmt: skip
_CATALOG = "catalog."
_BROKERS = ("kafka.", "bootstrap.servers", CONFIG_FILE.lower())
"""Options of the brokers that the quarantine is published to, in lower case."""


class TableFormat(Enum):
    """The table's format; values are those of the option `tableFormat`."""

    PARQUET = "parquet"
    DELTA = "delta"
    ICEBERG = "iceberg"


@dataclass(frozen=True)
class Upsert:
    """Upsert settings: rows replace those with the same key."""

    keys: tuple[str, ...]
    order: str
    """Column whose highest value wins among a key's changes."""
    delete_when: str
    """A boolean column that deletes the key if true, or `value`, which deletes it if null."""


@dataclass(frozen=True)
class TableOptions:
    """All options of one table, validated."""

    format: TableFormat
    path: Path
    """Directory of the table, or of an Iceberg table's warehouse if no catalog is given."""
    table: str
    catalog: Mapping[str, str]
    pipeline: str
    """Name of the pipeline; empty for a batch job without txnAppId."""
    checkpoint: Path | None
    version: int | None
    partition_by: tuple[PartitionField, ...]
    sort_by: tuple[str, ...]
    file_bytes: int
    compression: str
    merge_every: int
    merge_bytes: int
    shared: bool
    upsert: Upsert | None
    delete_retention_ms: int
    """Time for which an upserted table stores deleted keys, in milliseconds."""
    checks: RowChecks | None
    """The checks that the rows were evaluated by; None without."""
    quarantine: SinkQuarantine | None
    """The quarantine that the query's driver publishes; None without one."""


def parse_table_options(options: Mapping[str, str], *, streaming: bool) -> TableOptions:
    """Validate all options of a streaming or batch write; OptionError names the invalid one."""
    given = GivenOptions(options)
    catalog = _catalog(given)
    kind = given.choice("tableFormat", {kind.value: kind for kind in TableFormat}, None)
    if kind is None:
        raise OptionError(f"tableFormat: missing; {', '.join(kind.value for kind in TableFormat)}")
    path, table = _text(given, "path"), _text(given, "table")
    if not path:
        raise OptionError("path: missing; name the table's directory in start(…) or save(…)")
    if kind is TableFormat.ICEBERG and not table:
        raise OptionError('table: missing; an Iceberg table has a name like "sales.orders"')
    for name in ("table", *(f"{_CATALOG}{key}" for key in catalog)):
        if kind is not TableFormat.ICEBERG and _text(given, name):
            raise OptionError(f"{name}: is for tableFormat=iceberg; others are known by their path")
    pipeline, version = _pipeline(given, streaming=streaming)
    checks = given_checks(given)
    quarantine = sink_quarantine(given, pipeline, given_client(given), streaming=streaming)
    if streaming:
        refuse_without_quarantine(checks, quarantine=quarantine is not None)
    return TableOptions(
        format=kind,
        path=local_path("path", path),
        table=table,
        catalog=catalog,
        pipeline=pipeline,
        checkpoint=_checkpoint(given) if streaming else None,
        version=version,
        partition_by=parse_fields(_text(given, "partitionBy")),
        sort_by=given.words("sortBy"),
        file_bytes=given.number_or("fileBytesMax", FILE_BYTES, 1 << 16),
        compression=given.choice("compression", {codec: codec for codec in _CODECS}, "zstd"),
        merge_every=given.number_or(
            "mergeEvery", 0 if kind is TableFormat.PARQUET else MERGE_EVERY, 0
        ),
        merge_bytes=given.number_or("mergeBytesMax", MERGE_BYTES, 1 << 20),
        shared=given.flag("shared", False),
        upsert=_upsert(given, kind),
        delete_retention_ms=given.number_or("deleteRetentionMs", DELETE_RETENTION_MS, 0),
        checks=checks,
        quarantine=quarantine,
    )


def _catalog(given: GivenOptions) -> dict[str, str]:
    """Refuse unknown options; return the catalog's settings."""
    known = {name.lower() for name in _NAMES}
    settings = {}
    for lower, spelled in given.names():
        if lower.startswith(_CATALOG):
            settings[lower.removeprefix(_CATALOG)] = given.text(spelled) or ""
        elif lower.startswith(_BROKERS) and SPOOL in given:
            continue
        # Spark's own options begin with two underscores.
        elif lower not in known and not lower.startswith("__"):
            raise OptionError(f"{spelled}: no such option{perhaps(lower, _NAMES)}")
    return settings


def _text(given: GivenOptions, name: str) -> str:
    return (given.text(name) or "").strip()


def local_path(option: str, text: str) -> Path:
    """Convert an option to a local directory's path; OptionError for any other URI."""
    uri = urlsplit(text)
    if uri.scheme not in ("", "file"):
        raise OptionError(
            f"{option}: {text!r} is not a directory: tables are written to local directories and "
            "to shared mounts that driver and workers see at the same path"
        )
    path = Path(unquote(uri.path) if uri.scheme else text)
    if not path.is_absolute():
        path = Path.cwd() / path
    return path


def _pipeline(given: GivenOptions, *, streaming: bool) -> tuple[str, int | None]:
    """Return the pipeline's name for the table's marker, and a batch job's `txnVersion`.

    The version is None for a stream, and without a `txnAppId`, whose name is then "".
    """
    name, job = _text(given, "pipeline") or _text(given, "queryName"), _text(given, "txnAppId")
    if streaming:
        if job or _text(given, "txnVersion"):
            raise OptionError("txnAppId: is for batch jobs; a stream has a queryName or pipeline")
        if not name:
            raise OptionError(
                "pipeline: missing; name the query with queryName(…) or this option, and keep the "
                "name: by it the table knows what it holds of this query"
            )
        return name, None
    if bool(job) != bool(_text(given, "txnVersion")):
        raise OptionError("txnAppId and txnVersion: give both, or neither")
    return job, given.number("txnVersion", 0) if job else None


def _checkpoint(given: GivenOptions) -> Path:
    text = _text(given, "checkpointLocation")
    if not text:
        raise OptionError(
            "checkpointLocation: missing; it must be this query's option: the session's default "
            "does not reach the table's writer"
        )
    return local_path("checkpointLocation", text)


def _upsert(given: GivenOptions, kind: TableFormat) -> Upsert | None:
    keys = given.words("upsertBy")
    if not keys:
        for name in ("upsertOrder", "deleteWhen", "deleteRetentionMs"):
            if _text(given, name):
                raise OptionError(f"{name}: needs upsertBy")
        return None
    if kind is not TableFormat.DELTA:
        raise OptionError("upsertBy: is for tableFormat=delta")
    if _text(given, "partitionBy"):
        raise OptionError("upsertBy: a key may move between partitions; leave partitionBy out")
    order = _text(given, "upsertOrder") or "offset"
    return Upsert(keys, order, _text(given, "deleteWhen") or "value")
