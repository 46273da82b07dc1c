"""The options of `format("headrace-table")`, checked before anything is written."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from urllib.parse import unquote, urlsplit

from headrace.spark.errors import OptionError
from headrace.spark.tables.partition import PartitionField, parse_fields

FILE_BYTES = 128 << 20
MERGE_EVERY = 50
MERGE_BYTES = 1 << 30
_CODECS = ("zstd", "snappy", "gzip", "lz4", "none")
_NAMES = (
    "tableFormat", "path", "table", "pipeline", "queryName", "checkpointLocation", "txnAppId",
    "txnVersion", "partitionBy", "sortBy", "fileBytesMax", "compression", "mergeEvery",
    "mergeBytesMax", "shared", "upsertBy", "upsertOrder", "deleteWhen",
)  # fmt: skip
_CATALOG = "catalog."


class TableFormat(Enum):
    """What the table is; the option's value."""

    PARQUET = "parquet"
    DELTA = "delta"
    ICEBERG = "iceberg"


@dataclass(frozen=True)
class Upsert:
    """Rows replace those of the same key instead of being added."""

    keys: tuple[str, ...]
    order: str
    """Of several rows of a key in a batch the one with the highest counts."""
    delete_when: str
    """A boolean column that deletes the key, or `value`, which deletes it where it is null."""


@dataclass(frozen=True)
class TableOptions:
    """All options of one table, checked."""

    format: TableFormat
    path: Path
    """Directory of the table; of an Iceberg table's warehouse, where no other catalog is given."""
    table: str
    catalog: Mapping[str, str]
    pipeline: str
    """Empty for a batch job that nobody repeats by number."""
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


class _Given:
    """The options as Spark hands them over, names in lower case."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._values = {name.lower(): value for name, value in options.items()}
        known = {name.lower() for name in _NAMES}
        for name in self._values:
            if name in known or name.startswith((_CATALOG, "__")):
                continue
            close = difflib.get_close_matches(name, known, 1)
            perhaps = next(
                (f"; did you mean {real}?" for real in _NAMES if [real.lower()] == close), ""
            )
            raise OptionError(f"{name}: no such option{perhaps}")
        self.catalog = {
            name.removeprefix(_CATALOG): value
            for name, value in self._values.items()
            if name.startswith(_CATALOG)
        }

    def text(self, name: str) -> str:
        return self._values.get(name.lower(), "").strip()

    def words(self, name: str) -> tuple[str, ...]:
        return tuple(filter(None, (word.strip() for word in self.text(name).split(","))))

    def number(self, name: str, default: int, least: int) -> int:
        text = self.text(name)
        try:
            number = int(text) if text else default
        except ValueError:
            raise OptionError(f"{name}: {text!r} is not a whole number") from None
        if number < least:
            raise OptionError(f"{name}: {number} is less than {least}")
        return number

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        text = self.text(name).lower() or default
        if text not in choices:
            raise OptionError(f"{name}: {text or 'missing'!r} is none of {', '.join(choices)}")
        return text


def parse_table_options(options: Mapping[str, str], *, streaming: bool) -> TableOptions:
    """Check all options of a stream's or a batch job's table; OptionError names what is wrong."""
    given = _Given(options)
    kind = TableFormat(given.choice("tableFormat", tuple(kind.value for kind in TableFormat), ""))
    if not given.text("path"):
        raise OptionError("path: missing; name the table's directory in start(…) or save(…)")
    if kind is TableFormat.ICEBERG and not given.text("table"):
        raise OptionError('table: missing; an Iceberg table has a name like "sales.orders"')
    for name in ("table", *(f"{_CATALOG}{key}" for key in given.catalog)):
        if kind is not TableFormat.ICEBERG and given.text(name):
            raise OptionError(f"{name}: is for tableFormat=iceberg; others are known by their path")
    pipeline, version = _pipeline(given, streaming=streaming)
    codec = given.choice("compression", _CODECS, "zstd")
    return TableOptions(
        format=kind,
        path=local_path("path", given.text("path")),
        table=given.text("table"),
        catalog=given.catalog,
        pipeline=pipeline,
        checkpoint=_checkpoint(given) if streaming else None,
        version=version,
        partition_by=parse_fields(given.text("partitionBy")),
        sort_by=given.words("sortBy"),
        file_bytes=given.number("fileBytesMax", FILE_BYTES, 1 << 16),
        compression=codec,
        merge_every=given.number("mergeEvery", MERGE_EVERY, 0),
        merge_bytes=given.number("mergeBytesMax", MERGE_BYTES, 1 << 20),
        shared=given.choice("shared", ("true", "false"), "false") == "true",
        upsert=_upsert(given, kind),
    )


def local_path(option: str, text: str) -> Path:
    """Return a directory of this machine or a shared mount; OptionError for any other URI."""
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


def _pipeline(given: _Given, *, streaming: bool) -> tuple[str, int | None]:
    """Return the name that the table's marker has, and a batch job's number."""
    name, job = given.text("pipeline") or given.text("queryName"), given.text("txnAppId")
    if streaming:
        if job or given.text("txnVersion"):
            raise OptionError("txnAppId: is for batch jobs; a stream has a queryName or pipeline")
        if not name:
            raise OptionError(
                "pipeline: missing; name the query with queryName(…) or this option, and keep the "
                "name: by it the table knows what it holds of this query"
            )
        return name, None
    if bool(job) != bool(given.text("txnVersion")):
        raise OptionError("txnAppId and txnVersion: give both, or neither")
    return job, given.number("txnVersion", 0, 0) if job else None


def _checkpoint(given: _Given) -> Path:
    text = given.text("checkpointLocation")
    if not text:
        raise OptionError(
            "checkpointLocation: missing; it must be this query's option: the session's default "
            "does not reach the table's writer"
        )
    return local_path("checkpointLocation", text)


def _upsert(given: _Given, kind: TableFormat) -> Upsert | None:
    keys = given.words("upsertBy")
    if not keys:
        for name in ("upsertOrder", "deleteWhen"):
            if given.text(name):
                raise OptionError(f"{name}: needs upsertBy")
        return None
    if kind is not TableFormat.DELTA:
        raise OptionError("upsertBy: is for tableFormat=delta")
    if given.text("partitionBy"):
        raise OptionError("upsertBy: a key may move between partitions; leave partitionBy out")
    order = given.text("upsertOrder") or "offset"
    return Upsert(keys, order, given.text("deleteWhen") or "value")
