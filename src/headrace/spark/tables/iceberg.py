"""Iceberg tables, by pyiceberg: one snapshot appends the workers' files, which have field ids.

The marker is a table property, `headrace.marker.<pipeline>`, set in the transaction that appends.
Snapshot summaries expire with their snapshots; properties do not.

pyiceberg retries a commit by itself when another came first, and may then append files that are in
the table already. So `commit.retry.num-retries` is 0 for our commits, and the marker is read again
before a retry.
"""

import os
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import Any
from weakref import finalize

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.config.installing import install_command
from headrace.spark.errors import OptionError, SourceError
from headrace.spark.tables.attempts import OWN_DIRECTORY, Attempt, forget, locked
from headrace.spark.tables.columns import nullable
from headrace.spark.tables.errors import Conflict, TableError, gone
from headrace.spark.tables.files import Layout, WrittenFile
from headrace.spark.tables.marker import Marker
from headrace.spark.tables.merge import groups_to_merge, rewrite
from headrace.spark.tables.new_columns import check_rows, columns_to_add
from headrace.spark.tables.options import TableOptions
from headrace.spark.tables.table import Table

try:
    from pyiceberg.catalog import Catalog, load_catalog
    from pyiceberg.exceptions import (
        CommitFailedException,
        NoSuchTableError,
        TableAlreadyExistsError,
        ValidationException,
    )
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import pyarrow_to_schema, schema_to_pyarrow
    from pyiceberg.manifest import DataFile
    from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
    from pyiceberg.schema import Schema, index_by_name
    from pyiceberg.table import Table as IcebergTable
    from pyiceberg.table import Transaction
    from pyiceberg.table.snapshots import Operation, Summary
    from pyiceberg.table.update.snapshot import _OverwriteFiles
    from pyiceberg.transforms import DayTransform, IdentityTransform, Transform
    from pyiceberg.typedef import EMPTY_DICT

    from headrace.spark.tables.iceberg_files import data_file, path_of
except ImportError as error:
    raise SourceError(f"{error.name} is missing: {install_command('pyiceberg')}") from error

OWNER = "headrace.pipeline"
_FORMAT_VERSION_MAX = 2
_RETRIES = "commit.retry.num-retries"


class Iceberg(Table):
    """An Iceberg table; without a catalog option, in an SQLite catalog beside the warehouse."""

    def __init__(self, options: TableOptions) -> None:
        super().__init__(options)
        self._table: IcebergTable | None = None
        self.location = options.path

    @cached_property
    def _catalog(self) -> Catalog:
        return _catalog(self.options)

    @property
    def _opened(self) -> IcebergTable:
        if self._table is None:
            self._table = self._load()
        return self._table

    def exists(self) -> bool:
        """Return whether the catalog has the table; an own catalog is not created for that."""
        if self._lacks_catalog:
            return False
        try:
            return self._catalog.table_exists(self.options.table)
        except FileNotFoundError:  # The catalog lists the table, but its files were deleted.
            return False

    @property
    def _lacks_catalog(self) -> bool:
        return _is_own(self.options) and not _own_catalog(self.options).exists()

    def open(self, schema: pa.Schema) -> Layout:
        """Create the table or check its schema; files hold all columns, as Iceberg requires."""
        if not self.exists():
            self._create(schema)
        self.reload()
        self._check()
        new = check_rows(self.options.table, schema, self._columns)
        there = schema_to_pyarrow(_with_columns(self._opened.transaction(), new))
        return Layout(
            location=self.location,
            schema=pa.schema([there.field(column.name) for column in schema]),
            partition_by=self.options.partition_by,
            sort_by=self.options.sort_by,
            compression=self.options.compression,
            file_bytes=self.options.file_bytes,
            directory="data",
            keeps_empty_texts=True,
        )

    def reload(self) -> None:
        """Load the table's newest metadata."""
        self._table = self._load()

    def last_marker(self) -> Marker | None:
        """Return the pipeline's marker from the table's properties; None if it has none."""
        text = self._opened.properties.get(_marker_of(self.options.pipeline))
        return None if text is None else Marker.of_json(self.options.pipeline, text)

    def columns(self) -> Collection[str]:
        """Return the table's columns."""
        names: list[str] = self._columns.names
        return names

    @property
    def _columns(self) -> pa.Schema:
        return schema_to_pyarrow(self._opened.schema())

    def owners(self) -> Collection[str]:
        """Return the name of the pipeline that created the table, as a set; empty without one."""
        owner = self._opened.properties.get(OWNER)
        return {owner} if owner else set()

    def append(
        self, files: Sequence[WrittenFile], marker: Marker | None, *, overwrite: bool
    ) -> None:
        """Append the files in one snapshot, with the marker."""
        new, table = self._new_columns(files), self._opened
        try:
            with table.transaction() as transaction:
                if new:
                    with transaction.update_schema() as change:
                        change.union_by_name(pa.schema(new))
                metadata = transaction.table_metadata
                data_files = [data_file(table, metadata, file.path) for file in files]
                if marker is not None:
                    transaction.set_properties({_marker_of(marker.pipeline): marker.to_json()})
                if overwrite:
                    transaction.delete(AlwaysTrue())
                with transaction.update_snapshot().fast_append() as snapshot:
                    for entry in data_files:
                        snapshot.append_data_file(entry)
        except (CommitFailedException, ValidationException) as error:
            raise Conflict(str(error)) from error

    def _new_columns(self, files: Sequence[WrittenFile]) -> list[pa.Field]:
        """Return the columns of the batch's files that the table lacks.

        TableError if another commit has added columns since the tasks began: the files' field ids
        would then be those of other columns.
        """
        if not files:
            return []
        rows = pq.read_schema(self.location / files[0].path)
        new = columns_to_add(self.options.table, rows, self._columns)
        there = index_by_name(_with_columns(self._opened.transaction(), new))
        ids = index_by_name(pyarrow_to_schema(rows))
        if any(there.get(name) != number for name, number in ids.items()):
            raise TableError(
                f"{self.options.table}: columns were added while the batch was written, and its "
                "files have their field ids: start the query again"
            )
        return new

    def held(self) -> Collection[str]:
        """Return the paths of the newest snapshot's files."""
        paths = (path_of(task.file.file_path) for task in self._opened.scan().plan_files())
        return {os.path.relpath(path, self.location) for path in paths}

    def exclusive(self) -> AbstractContextManager[None]:
        """Hold a lock file while sweeping; appends do not take it, as a sweep follows its own
        commit."""
        own = self.location / OWN_DIRECTORY
        own.mkdir(exist_ok=True)
        return locked(own)

    def merge(self, batch: int) -> int:
        """Rewrite each partition's small files as one and replace them in one snapshot; return the
        number replaced.

        Files with delete files, and those of an older partition spec, are left alone. Replaced
        files stay until the snapshots that use them expire.
        """
        by_partition: dict[str, list[DataFile]] = {}
        for task in self._opened.scan().plan_files():
            if (
                not task.delete_files
                and task.file.spec_id == self._opened.spec().spec_id
                and task.file.file_size_in_bytes < self.options.file_bytes // 2
            ):
                by_partition.setdefault(repr(task.file.partition), []).append(task.file)
        chosen = groups_to_merge(
            by_partition.values(), lambda file: file.file_size_in_bytes, self.options.merge_bytes
        )
        if chosen:
            attempt = Attempt(self.location, self.options.pipeline, batch)
            merges = [(group, self._rewritten(group, attempt)) for group in chosen]
            # Another run of this batch might otherwise sweep the new files as a dead attempt's.
            with self.exclusive():
                self._replace(merges)
            forget(self.location, [attempt.name])
        return sum(map(len, chosen))

    def _rewritten(self, group: Sequence[DataFile], attempt: Attempt) -> Sequence[WrittenFile]:
        """Rewrite the rows of some files to new files."""
        layout = Layout(
            location=self.location,
            schema=schema_to_pyarrow(self._opened.schema()),
            sort_by=self.options.sort_by,
            compression=self.options.compression,
            file_bytes=self.options.file_bytes,
            directory="data",
        )
        return rewrite(layout, attempt, [str(path_of(file.file_path)) for file in group])

    def _replace(self, merges: Sequence[tuple[Sequence[DataFile], Sequence[WrittenFile]]]) -> None:
        table = self._opened
        try:
            with (
                table.transaction() as transaction,
                _RewriteFiles(Operation.OVERWRITE, transaction, table.io) as snapshot,
            ):
                for old, new in merges:
                    for file in old:
                        snapshot.delete_data_file(file)
                    for written in new:
                        snapshot.append_data_file(data_file(table, table.metadata, written.path))
        except (CommitFailedException, ValidationException) as error:
            raise Conflict(str(error)) from error

    def _load(self) -> IcebergTable:
        if self._lacks_catalog:
            raise gone(self.location)
        try:
            table = self._catalog.load_table(self.options.table)
        except (NoSuchTableError, FileNotFoundError) as error:
            raise gone(self.location) from error
        self.location = path_of(table.location())
        # Changed only in this process's copy; see the module's docstring.
        table.metadata.properties[_RETRIES] = "0"
        return table

    def _create(self, schema: pa.Schema) -> None:
        name = self.options.table
        if _is_own(self.options):
            self.options.path.mkdir(parents=True, exist_ok=True)
        namespace = name.rpartition(".")[0]
        self._catalog.create_namespace_if_not_exists(namespace)
        properties = {OWNER: self.options.pipeline} if self.options.pipeline else {}
        try:
            with (
                self._catalog.create_table_transaction(
                    name,
                    nullable(schema),
                    partition_spec=UNPARTITIONED_PARTITION_SPEC,
                    properties=properties,
                ) as transaction,
                transaction.update_spec() as spec,
            ):
                for field in self.options.partition_by:
                    transform: Transform[Any, Any] = (
                        DayTransform() if field.by_day else IdentityTransform()
                    )
                    spec.add_field(field.column, transform, field.name)
        except (TableAlreadyExistsError, CommitFailedException):
            pass  # Another run has created the table in between.

    def _check(self) -> None:
        """Raise TableError if partition spec or format version do not match."""
        if self._opened.format_version > _FORMAT_VERSION_MAX:
            raise TableError(
                f"{self.options.table} has format-version {self._opened.format_version}, and "
                f"pyiceberg writes {_FORMAT_VERSION_MAX}: no table goes back, write to another"
            )
        wanted = [
            (field.column, "day" if field.by_day else "identity")
            for field in self.options.partition_by
        ]
        spec: PartitionSpec = self._opened.spec()
        found = [
            (self._opened.schema().find_column_name(field.source_id), str(field.transform))
            for field in spec.fields
        ]
        if wanted != found:
            raise TableError(
                f"{self.options.table} is partitioned by {found or 'nothing'}, not by "
                f"{wanted or 'nothing'}: partitionBy must name what the table has"
            )


class _RewriteFiles(_OverwriteFiles):
    """Replaces files by others with the same rows, so that incremental readers skip the
    snapshot."""

    def _summary(self, snapshot_properties: dict[str, str] = EMPTY_DICT) -> Summary:
        # pyiceberg computes the summary for overwrites only.
        summary = super()._summary(snapshot_properties)
        return Summary(Operation.REPLACE, **summary.additional_properties)


def _with_columns(transaction: Transaction, new: Sequence[pa.Field]) -> Schema:
    """Return the table's schema with these columns and their field ids, without a change."""
    if not new:
        return transaction.table_metadata.schema()
    return transaction.update_schema().union_by_name(pa.schema(new))._apply()


def _catalog(options: TableOptions) -> Catalog:
    given = dict(options.catalog)
    name = given.pop("name", "headrace")
    if _is_own(options):
        if {"#", "?"} & set(str(options.path)):
            raise OptionError(
                f"path: {options.path} has # or ?, which end a path in Iceberg's URIs"
            )
        given = {
            "type": "sql",
            "uri": f"sqlite:///{_own_catalog(options)}",
            "warehouse": f"file://{options.path}",  # Not escaped, as no reader unescapes it.
        }
    try:
        catalog = load_catalog(name, **given)
    except (ValueError, ImportError) as error:
        raise OptionError(f"catalog: {error}") from error
    if (engine := getattr(catalog, "engine", None)) is not None:
        finalize(catalog, engine.dispose)  # a catalog in SQL closes no connection by itself
    return catalog


def _is_own(options: TableOptions) -> bool:
    return not options.catalog


def _own_catalog(options: TableOptions) -> Path:
    return options.path / "catalog.db"


def _marker_of(pipeline: str) -> str:
    return f"headrace.marker.{pipeline}"
