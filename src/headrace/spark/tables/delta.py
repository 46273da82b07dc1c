"""Delta tables, by deltalake: one version of the table's log adds the workers' files.

`delta_parts/marker.py` says how the marker is stored.

An upserted table has an application transaction `headrace-deleted-keys` that names the file of its
deleted keys.
"""

import logging
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.config.installing import install_command
from headrace.spark.errors import SourceError
from headrace.spark.tables.attempts import Attempt
from headrace.spark.tables.columns import nullable
from headrace.spark.tables.delta_parts.statistics import log_statistics
from headrace.spark.tables.delta_version import check_version
from headrace.spark.tables.errors import Conflict, TableError, gone
from headrace.spark.tables.files import Layout, WrittenFile
from headrace.spark.tables.marker import Marker
from headrace.spark.tables.new_columns import check_rows, columns_to_add
from headrace.spark.tables.options import TableOptions, Upsert
from headrace.spark.tables.table import Table
from headrace.spark.tables.upserts.deleted_keys import (
    NO_FILE,
    path_of,
    read_deleted_keys,
    write_deleted_keys,
)

try:
    from deltalake import DeltaTable, Schema, Transaction
    from deltalake import __version__ as deltalake_version
    from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
    from deltalake.transaction import AddAction, RemoveAction

    from headrace.spark.tables.delta_new_columns import allow_new_columns, append_with_new_columns
    from headrace.spark.tables.delta_parts.lease import LeasedPartitions
    from headrace.spark.tables.delta_parts.marker import MARKER, marker_of, properties_of
    from headrace.spark.tables.delta_parts.snapshot import partition_text
    from headrace.spark.tables.upserts.changes import (
        changes_of,
        check_upsert,
        deleted_columns,
        merge_changes,
        read_batch,
    )
except ImportError as error:
    raise SourceError(f"{error.name} is missing: {install_command('deltalake')}") from error

check_version(deltalake_version)

OWNER = "headrace.pipeline"
_DELETED_KEYS = "headrace-deleted-keys"
"""The application transaction with the id of the file of deleted keys. A pipeline's applications
begin with `headrace:`."""
_HISTORY_VERSIONS = 1000
"""How many versions back the search for a lost checkpoint's offsets goes."""
_MAPPING = "delta.columnMapping.mode"
_log = logging.getLogger(__name__)
_COLUMN_RULES = ("delta.generationExpression", "delta.identity.start", "delta.invariants")


class Delta(Table):
    """A Delta table in a directory."""

    def __init__(self, options: TableOptions, version: int | None = None) -> None:
        """`version`: the one to read; None: the newest, which commits need."""
        super().__init__(options)
        self.location = options.path
        self._version = version
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
        days = [pa.field(field.name, pa.date32()) for field in fields if field.by_day]
        if not self.exists():
            self._create(pa.schema([*schema, *days]))
        self.reload()
        self._check_rules()
        self._check_partitions()
        check_rows(str(self.location), [*schema, *days], self._columns)
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
        return marker_of(self._opened, self.options.pipeline)

    def ends_of(self, marker: Marker) -> Sequence[str]:
        """Return the sources' end offsets from the commit's log entry; empty if that has
        expired."""
        for version in self._opened.history(_HISTORY_VERSIONS):
            text = version.get(MARKER, "")
            if text and (found := Marker.of_json(marker.pipeline, text)).digest == marker.digest:
                return found.ends
        return ()

    def columns(self) -> Collection[str]:
        """Return the table's columns without those for days."""
        days = {field.name for field in self.options.partition_by if field.by_day}
        return [name for name in self._columns.names if name not in days]

    @property
    def _columns(self) -> pa.Schema:
        return pa.schema(self._opened.schema().to_arrow())

    def owners(self) -> Collection[str]:
        """Return the name of the pipeline that created the table, as a set; empty without one."""
        owner = self._opened.metadata().configuration.get(OWNER)
        return {owner} if owner else set()

    def append(
        self, files: Sequence[WrittenFile], marker: Marker | None, *, overwrite: bool
    ) -> None:
        """Commit one version that adds the files, or merges their rows by key (`upsertBy`)."""
        self._check_rules()
        if self.options.upsert is not None and files:
            self.adds_files = False
            if overwrite:
                raise TableError("upsertBy: rows are merged into what is there; use append mode")
            self._upsert(self.options.upsert, files, marker)
            return
        new = self._new_columns(files)
        columns = self._columns_of_files(new)
        properties = None if marker is None else properties_of(marker)
        if new and not overwrite:
            self.adds_files = False
            with commit_errors(self.location):
                append_with_new_columns(
                    self._opened, self.options, files, pa.schema(columns), properties
                )
            return
        schema = Schema([*self._opened.schema().fields, *Schema.from_arrow(pa.schema(new)).fields])
        actions: list[AddAction | RemoveAction] = [self._added(file, columns) for file in files]
        with commit_errors(self.location):
            self._opened.create_write_transaction(
                actions,
                "overwrite" if overwrite else "append",
                schema,
                [field.name for field in self.options.partition_by],
                commit_properties=properties,
            )

    def _upsert(self, upsert: Upsert, files: Sequence[WrittenFile], marker: Marker | None) -> None:
        new = self._new_columns(files)
        columns = pa.schema([*self._columns, *new])
        staged = pq.read_schema(self.location / files[0].path)
        schema = pa.schema([columns.field(name) for name in staged.names])
        rows = read_batch(self.location, [file.path for file in files], schema)
        now_ms = int(time.time() * 1000)
        number = self._deleted_keys
        stored = self._stored_deleted_keys(number, deleted_columns(upsert, schema), now_ms)
        changes = changes_of(rows, upsert, stored, now_ms)
        if changes.deleted is not None:
            batch = None if marker is None else marker.batch
            attempt = Attempt(self.location, self.options.pipeline, batch)
            number = write_deleted_keys(self.location, attempt, changes.deleted, number)
        # Stored by each upsert: of two at a time, one that did not see the other's deletions fails.
        properties = properties_of(marker, Transaction(_DELETED_KEYS, number))
        with commit_errors(self.location):
            allow_new_columns(self._opened, new)
            merge_changes(self._opened, changes, properties)

    def _new_columns(self, files: Sequence[WrittenFile]) -> list[pa.Field]:
        """Return the columns of the batch's files that the table lacks."""
        if not files:
            return []
        rows = pq.read_schema(self.location / files[0].path)
        return columns_to_add(str(self.location), rows, self._columns)

    @property
    def _deleted_keys(self) -> int:
        """Id of the file of deleted keys."""
        return self._opened.transaction_version(_DELETED_KEYS) or NO_FILE

    def _stored_deleted_keys(self, number: int, columns: pa.Schema, now_ms: int) -> pa.Table:
        since_ms = now_ms - self.options.delete_retention_ms
        try:
            return read_deleted_keys(self.location, number, columns, since_ms)
        except FileNotFoundError as error:
            self.reload()
            if self._deleted_keys != number:
                raise Conflict("another commit has replaced the deleted keys") from error
            _log.warning(
                "%s is missing: older changes may bring back deleted keys",
                self.location / path_of(number),
            )
            return read_deleted_keys(self.location, NO_FILE, columns, since_ms)

    def held(self) -> Collection[str]:
        """Return the paths of the newest version's files."""
        paths = pa.table(self._opened.get_add_actions()).column("path").to_pylist()
        # Escaped as in the log and unescaped as on disk: one path too many does no harm.
        own = {path_of(number)} if (number := self._deleted_keys) else set()
        return {*paths, *map(unquote, paths), *own}

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

        Partitions with fewer than two small files, and leased ones, are left out.
        """
        names = [field.name for field in self.options.partition_by]
        found: dict[tuple[str | None, ...], list[int]] = {}
        for action in pa.table(self._opened.get_add_actions()).to_pylist():
            if action["size_bytes"] < self.options.file_bytes // 2:
                values = action.get("partition") or {}
                key = tuple(partition_text(values.get(name)) for name in names)
                found.setdefault(key, []).append(action["size_bytes"])
        leased = LeasedPartitions(self.location, int(time.time() * 1000))
        several = [
            (key, sizes)
            for key, sizes in found.items()
            if len(sizes) > 1 and not leased.holds(names, key)
        ]
        several.sort(key=lambda each: -len(each[1]))
        return [(dict(zip(names, key, strict=True)), sum(sizes)) for key, sizes in several]

    def _load(self) -> DeltaTable:
        try:
            return DeltaTable(str(self.location), version=self._version)
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

    def _check_partitions(self) -> None:
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

    def _columns_of_files(self, new: Sequence[pa.Field]) -> list[pa.Field]:
        partitions = {field.name for field in self.options.partition_by}
        return [column for column in (*self._columns, *new) if column.name not in partitions]

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
