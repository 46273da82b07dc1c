"""Delta tables, by deltalake: one version of the table's log adds the workers' files.

The marker consists of three of Delta's application transactions: `headrace:<pipeline>` with the
batch, `headrace:<pipeline>:digest` and `headrace:<pipeline>:query`. They stay in the table's state
when log entries expire. delta-rs refuses a commit that meets a concurrent one with the same
application's transaction.
"""

import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.config.installing import install_command
from headrace.spark.errors import SourceError
from headrace.spark.tables.columns import check_nulls, fits, nullable
from headrace.spark.tables.delta_statistics import log_statistics
from headrace.spark.tables.errors import Conflict, TableError, gone
from headrace.spark.tables.files import Layout, WrittenFile
from headrace.spark.tables.marker import UNKNOWN_DIGEST, Marker
from headrace.spark.tables.options import TableOptions, Upsert
from headrace.spark.tables.table import Table

try:
    from deltalake import CommitProperties, DeltaTable, Schema, Transaction
    from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
    from deltalake.transaction import AddAction, RemoveAction

    from headrace.spark.tables.upsert import check_upsert, merge_rows
except ImportError as error:
    raise SourceError(f"{error.name} is missing: {install_command('deltalake')}") from error

OWNER = "headrace.pipeline"
_MARKER = "headrace"
"""Name of the marker in a commit's metadata, for people and for error texts."""
_HISTORY_VERSIONS = 1000
"""How many versions back the search for a lost checkpoint's offsets goes."""
_MAPPING = "delta.columnMapping.mode"
_COLUMN_RULES = ("delta.generationExpression", "delta.identity.start", "delta.invariants")


class Delta(Table):
    """A Delta table in a directory."""

    def __init__(self, options: TableOptions) -> None:
        super().__init__(options)
        self.location = options.path
        self._table: DeltaTable | None = None

    @property
    def _opened(self) -> DeltaTable:
        if self._table is None:
            self._table = self._load()
        return self._table

    def exists(self) -> bool:
        """Return whether a Delta log with a version exists."""
        return DeltaTable.is_deltatable(str(self.location))

    def open(self, schema: pa.Schema) -> Layout:
        """Create the table or check its schema; partition columns are in paths, not in files."""
        fields = self.options.partition_by
        if self.options.upsert is not None:
            check_upsert(self.options.upsert, schema)
        columns = list(schema)
        columns += [pa.field(field.name, pa.date32()) for field in fields if field.by_day]
        if not self.exists():
            self._create(pa.schema(columns))
        self.reload()
        self._check_rules()
        self._check(columns)
        return Layout(
            location=self.location,
            schema=nullable(
                column
                for column in schema
                if column.name not in {field.name for field in fields}
            ),
            partition_by=fields,
            sort_by=self.options.sort_by,
            compression=self.options.compression,
            file_bytes=self.options.file_bytes,
        )  # fmt: skip

    def reload(self) -> None:
        """Load the log's newest version."""
        self._table = self._load()

    def last_marker(self) -> Marker | None:
        """Return the pipeline's marker from its application transactions; None if it has none."""
        application = _application(self.options.pipeline)
        batch = self._opened.transaction_version(application)
        if batch is None:
            return None
        digest, query = (
            self._opened.transaction_version(f"{application}:{name}") or UNKNOWN_DIGEST
            for name in ("digest", "query")
        )
        return Marker(self.options.pipeline, batch, digest, query)

    def ends_of(self, marker: Marker) -> Sequence[str]:
        """Return the sources' end offsets from the commit's log entry; empty if that has
        expired."""
        for version in self._opened.history(_HISTORY_VERSIONS):
            text = version.get(_MARKER, "")
            if text and (found := Marker.of_json(marker.pipeline, text)).digest == marker.digest:
                return found.ends
        return ()

    def owners(self) -> Collection[str]:
        """Return the name of the pipeline that created the table, as a set; empty without one."""
        owner = self._opened.metadata().configuration.get(OWNER)
        return {owner} if owner else set()

    def append(
        self, files: Sequence[WrittenFile], marker: Marker | None, *, overwrite: bool
    ) -> None:
        """Commit one version that adds the files, or merges their rows by key (`upsertBy`)."""
        self._check_rules()
        if self.options.upsert is not None:
            if overwrite:
                raise TableError("upsertBy: rows are merged into what is there; use append mode")
            self._upsert(self.options.upsert, files, marker)
            return
        columns = self._columns_of_files()
        actions: list[AddAction | RemoveAction] = [self._added(file, columns) for file in files]
        with commit_errors(self.location):
            self._opened.create_write_transaction(
                actions,
                "overwrite" if overwrite else "append",
                self._opened.schema(),
                [field.name for field in self.options.partition_by],
                commit_properties=properties_of(marker),
            )

    def _upsert(self, upsert: Upsert, files: Sequence[WrittenFile], marker: Marker | None) -> None:
        columns = pa.schema(self._opened.schema().to_arrow())
        staged = pq.read_schema(self.location / files[0].path)
        schema = pa.schema([columns.field(name) for name in staged.names])
        paths = [file.path for file in files]
        with commit_errors(self.location):
            merge_rows(self._opened, self.location, paths, schema, upsert, properties_of(marker))

    def held(self) -> Collection[str]:
        """Return the paths of the newest version's files."""
        paths = pa.table(self._opened.get_add_actions()).column("path").to_pylist()
        # Escaped as in the log and unescaped as on disk: one path too many does no harm.
        return {*paths, *map(unquote, paths)}

    def merge(self, batch: int) -> int:
        """Compact small files with deltalake, partition by partition, then vacuum; return files
        merged.

        Each partition is a version of its own; the last one may exceed `mergeBytesMax`.
        """
        merged = done_bytes = 0
        for partition, size in self._small_files():
            if done_bytes >= self.options.merge_bytes:
                break
            filters = [(name, "=", value or "") for name, value in partition.items()]
            with commit_errors(self.location):
                outcome = self._opened.optimize.compact(
                    partition_filters=filters or None,
                    target_size=self.options.file_bytes,
                    max_concurrent_tasks=1,
                )
            merged += int(outcome["numFilesRemoved"])
            done_bytes += size
        if merged:
            with commit_errors(self.location):
                self._opened.vacuum(dry_run=False)
        return merged

    def _small_files(self) -> list[tuple[dict[str, str | None], int]]:
        """Return (partition values, bytes of its small files), most small files first.

        Partitions with fewer than two small files are left out.
        """
        names = [field.name for field in self.options.partition_by]
        found: dict[tuple[str | None, ...], list[int]] = {}
        for action in pa.table(self._opened.get_add_actions()).to_pylist():
            if action["size_bytes"] < self.options.file_bytes // 2:
                values = action.get("partition") or {}
                key = tuple(_partition_text(values.get(name)) for name in names)
                found.setdefault(key, []).append(action["size_bytes"])
        several = [(key, sizes) for key, sizes in found.items() if len(sizes) > 1]
        several.sort(key=lambda each: -len(each[1]))
        return [(dict(zip(names, key, strict=True)), sum(sizes)) for key, sizes in several]

    def _load(self) -> DeltaTable:
        try:
            return DeltaTable(str(self.location))
        except TableNotFoundError as error:
            raise gone(self.location) from error
        except DeltaError as error:
            raise TableError(f"{self.location}: the table cannot be read: {error}") from error

    def _create(self, schema: pa.Schema) -> None:
        configuration = {OWNER: self.options.pipeline} if self.options.pipeline else {}
        self.location.mkdir(parents=True, exist_ok=True)
        try:
            DeltaTable.create(
                str(self.location),
                schema=Schema.from_arrow(nullable(schema)),
                mode="ignore",
                partition_by=[field.name for field in self.options.partition_by],
                configuration=configuration,
                raise_if_key_not_exists=False,
            )
        except CommitFailedError:
            pass  # Another run has created the table in between.
        except DeltaError as error:
            raise TableError(f"{self.location} cannot be made a Delta table: {error}") from error

    def _check(self, columns: Sequence[pa.Field]) -> None:
        there = pa.schema(self._opened.schema().to_arrow())
        for column in columns:
            if column.name not in there.names:
                raise TableError(f"{self.location} has no column {column.name}")
            if not fits(column.type, there.field(column.name).type):
                kind = there.field(column.name).type
                raise TableError(f"{self.location}: {column.name} is {kind}, not {column.type}")
            check_nulls(str(self.location), column, there.field(column.name))
        partitions = self._opened.metadata().partition_columns
        wanted = [field.name for field in self.options.partition_by]
        if partitions != wanted:
            raise TableError(
                f"{self.location} is partitioned by {', '.join(partitions) or 'nothing'}, not by "
                f"{', '.join(wanted) or 'nothing'}: partitionBy must name what the table has"
            )

    def _check_rules(self) -> None:
        """Raise TableError if the table has constraints or features that a commit of files would
        break."""
        configuration = self._opened.metadata().configuration
        rules = [name for name in configuration if name.startswith("delta.constraints.")]
        if configuration.get(_MAPPING, "none") != "none":
            rules.append(_MAPPING)
        rules += [
            f"{rule} of {field.name}"
            for field in self._opened.schema().fields
            for rule in field.metadata
            if rule in _COLUMN_RULES
        ]
        if rules:
            raise TableError(
                f"{self.location} has rules for its writers that are not kept here: "
                f"{', '.join(rules)}. Take them off the table, or write to another and fill this "
                "one from there"
            )

    def _columns_of_files(self) -> list[pa.Field]:
        partitions = {field.name for field in self.options.partition_by}
        columns = pa.schema(self._opened.schema().to_arrow())
        return [column for column in columns if column.name not in partitions]

    def _added(self, file: WrittenFile, columns: Sequence[pa.Field]) -> AddAction:
        names = [field.name for field in self.options.partition_by]
        return AddAction(
            path=file.path,
            size=file.size,
            partition_values=dict(zip(names, file.key, strict=True)),
            modification_time=int(time.time() * 1000),
            data_change=True,
            stats=log_statistics(file, columns),
        )


class commit_errors:  # noqa: N801 - read as a statement
    """Context manager that converts errors of a delta-rs commit to Conflict or TableError."""

    def __init__(self, location: Path) -> None:
        self._location = location

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, CommitFailedError) and "Unsupported" in str(error):
            raise TableError(
                f"{self._location}: deltalake does not write what the table has ({error}): ALTER "
                "TABLE … DROP FEATURE takes it away; or write to another table"
            ) from error
        if isinstance(error, CommitFailedError):
            raise Conflict(str(error)) from error
        if isinstance(error, DeltaError):
            raise TableError(
                f"{self._location}: Delta's log could not be written: {error}. Mend it and start "
                "the query again: what is in the table is found there"
            ) from error


def properties_of(marker: Marker | None) -> CommitProperties | None:
    """Return commit properties that store the marker."""
    if marker is None:
        return None
    application = _application(marker.pipeline)
    return CommitProperties(
        app_transactions=[
            Transaction(application, marker.batch),
            Transaction(f"{application}:digest", marker.digest),
            Transaction(f"{application}:query", marker.query),
        ],
        custom_metadata={_MARKER: marker.to_json()},
    )


def _partition_text(value: Any) -> str | None:  # noqa: ANN401 - any partition column's
    if value is None or isinstance(value, str):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)


def _application(pipeline: str) -> str:
    return f"headrace:{pipeline}"
