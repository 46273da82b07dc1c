"""Snapshots of Delta tables: the columns of a version, and its files by partition.

A snapshot is read from the table's log once and does not change. Its rows are read from its own
files, so later commits have no influence, until `vacuum` deletes the files.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from headrace.spark.tables.errors import TableError
from headrace.spark.tables.merge import rows_of_file

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from headrace.spark.tables.partition import Key

_NOT_READ = {"deletionVectors", "columnMapping"}
"""Table features that change which rows a file has, or their columns' names."""


@dataclass(frozen=True)
class TableFile:
    """A file of a table's version."""

    path: str
    """Path on disk, relative to the table's location."""
    key: Key
    """Values of the partition columns."""
    size: int


@dataclass(frozen=True)
class Snapshot:
    """The files of one version of a Delta table, or of some of its partitions."""

    location: Path
    version: int
    columns: pa.Schema
    """All columns, those of partitions included."""
    partition_by: tuple[str, ...]
    """Names of the partition columns."""
    files: tuple[TableFile, ...]

    def partitions(self) -> dict[Key, tuple[TableFile, ...]]:
        """Return the files by partition."""
        found: dict[Key, list[TableFile]] = defaultdict(list)
        for file in self.files:
            found[file.key].append(file)
        return {key: tuple(files) for key, files in found.items()}

    def of(self, keys: Collection[Key]) -> Snapshot:
        """Return the snapshot of these partitions."""
        return replace(self, files=tuple(file for file in self.files if file.key in keys))

    def batches(self) -> Iterator[tuple[Key, pa.RecordBatch]]:
        """Yield the rows, each batch with its partition. TableError if a file is missing.

        Columns that a file lacks are null.
        """
        inside = pa.schema([field for field in self.columns if field.name not in self.partition_by])
        for file in self.files:
            try:
                for rows in rows_of_file(self.location / file.path, inside):
                    yield file.key, self._with_partition(rows, file.key)
            except FileNotFoundError as error:
                raise TableError(
                    f"{self.location}: version {self.version} cannot be read any more: "
                    f"{file.path} was deleted. Compare or replay a newer version"
                ) from error
            except (OSError, pa.ArrowInvalid) as error:
                raise TableError(f"{self.location / file.path} cannot be read: {error}") from error

    def _with_partition(self, rows: pa.RecordBatch, key: Key) -> pa.RecordBatch:
        values = dict(zip(self.partition_by, key, strict=True))
        arrays = [
            pa.array([values[field.name]] * rows.num_rows, pa.string()).cast(field.type)
            if field.name in values
            else rows.column(field.name)
            for field in self.columns
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.columns)


def snapshot_of(location: Path, version: int | None = None) -> Snapshot:
    """Return a version of the table at `location`; None: the newest. TableError if it is not
    there."""
    try:
        table = DeltaTable(str(location), version=version)
    except TableNotFoundError as error:
        raise TableError(f"there is no Delta table at {location}") from error
    except DeltaError as error:
        which = "the table" if version is None else f"version {version}"
        raise TableError(f"{location}: {which} cannot be read: {error}") from error
    return snapshot_of_table(table, location)


def snapshot_of_table(table: DeltaTable, location: Path) -> Snapshot:
    """Return the loaded version of a table. TableError if its rows need more than its files."""
    metadata = table.metadata()
    features = _NOT_READ.intersection(table.protocol().reader_features or ())
    if metadata.configuration.get("delta.columnMapping.mode", "none") != "none":
        features.add("columnMapping")
    if features:
        raise TableError(
            f"{location}: the table has {', '.join(sorted(features))}, and its files are read "
            "without: ALTER TABLE … DROP FEATURE takes it away"
        )
    partition_by = tuple(metadata.partition_columns)
    files = []
    for action in pa.table(table.get_add_actions()).to_pylist():
        values = action.get("partition") or {}
        key = tuple(partition_text(values.get(name)) for name in partition_by)
        files.append(TableFile(unquote(action["path"]), key, action["size_bytes"]))
    outside = [file.path for file in files if "://" in file.path or file.path.startswith("/")]
    if outside:
        raise TableError(f"{location}: {outside[0]} is not a file of the table's directory")
    columns = pa.schema(table.schema().to_arrow())
    return Snapshot(location, table.version(), columns, partition_by, tuple(files))


def partition_text(value: Any) -> str | None:  # noqa: ANN401 - any partition column's
    """Return a partition's value as Delta's log has it."""
    if value is None or isinstance(value, str):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)
