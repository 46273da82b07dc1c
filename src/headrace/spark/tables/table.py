"""The interface of each table format, and the commit of a batch.

A commit reads the table's marker and writes only if it shows another batch. After a conflict the
marker is read again before the retry: the other commit may come from another run of the same
pipeline, with the same batch.
"""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pyarrow as pa

from headrace.spark.durable import flush_directories
from headrace.spark.quarantine.manifest import NOTHING_REFUSED
from headrace.spark.tables import attempts
from headrace.spark.tables.errors import Conflict, TableError, gone
from headrace.spark.tables.files import Layout, WrittenFile, disk_error
from headrace.spark.tables.marker import UNKNOWN_DIGEST, Marker, is_written
from headrace.spark.tables.new_columns import check_written
from headrace.spark.tables.options import TableOptions
from headrace.spark.tables.partition import check_fields

COMMIT_TRIES = 10
_PAUSE_SECONDS = 0.05
_log = logging.getLogger(__name__)


class Table(ABC):
    """A table of some format. Created for each batch; keeps no state between batches."""

    location: Path
    """Directory that file paths are relative to."""
    adds_files = True
    """Whether the last append added the files themselves; otherwise the sweep deletes them."""

    def __init__(self, options: TableOptions) -> None:
        self.options = options

    @abstractmethod
    def exists(self) -> bool:
        """Return whether the table exists."""

    @abstractmethod
    def open(self, schema: pa.Schema) -> Layout:
        """Create the table if it does not exist; return how files of these rows are written.

        Columns that an existing table lacks are added by the commit. TableError if the table's
        other columns or its partitions do not match.
        """

    @abstractmethod
    def reload(self) -> None:
        """Load the table's current state."""

    @abstractmethod
    def last_marker(self) -> Marker | None:
        """Return the pipeline's last batch in the loaded state; None if it has none."""

    def ends_of(self, marker: Marker) -> Sequence[str]:
        """Return the sources' end offsets of the last batch; empty if the table has lost them."""
        return marker.ends

    @abstractmethod
    def columns(self) -> Collection[str]:
        """Return the names of the columns that rows have, in the loaded state."""

    @abstractmethod
    def owners(self) -> Collection[str]:
        """Return the name of the pipeline that created the table, as a set; empty without one."""

    @abstractmethod
    def append(
        self, files: Sequence[WrittenFile], marker: Marker | None, *, overwrite: bool
    ) -> None:
        """Commit files and marker atomically on the loaded state; Conflict if that is outdated.

        Columns of the files that the table lacks are added in the same commit. `overwrite`: remove
        the table's previous rows in the same commit.
        """

    @abstractmethod
    def held(self) -> Collection[str]:
        """Return the paths of the table's files in the loaded state."""

    @abstractmethod
    def merge(self, batch: int) -> int:
        """Merge small files, at most `mergeBytesMax` bytes; return how many were merged."""

    def exclusive(self) -> AbstractContextManager[object]:
        """Block other commits that could include files which a sweep has just deleted."""
        return nullcontext()

    def complete(self) -> None:  # noqa: B027 - most formats have nothing to complete
        """Complete a previous commit that was interrupted."""


def open_table(table: Table, schema: pa.Schema) -> Layout:
    """Return how rows of this schema are written; TableError if the table no longer exists."""
    options = table.options
    check_fields(options.partition_by, schema)
    for column in options.sort_by:
        if column not in schema.names:
            raise TableError(f"sortBy: there is no column {column!r} in {', '.join(schema.names)}")
    if options.checkpoint is not None and _has_committed(options.checkpoint) and not table.exists():
        raise gone(table.location)
    try:
        layout = table.open(schema)
    except OSError as error:
        raise disk_error(table.location, error) from error
    _check_owner(table)
    last = table.last_marker() if options.checkpoint is not None else None
    if last is not None and last.columns != UNKNOWN_DIGEST:
        check_written(str(table.location), schema.names, table.columns(), last.columns)
    return layout


def commit(
    table: Table,
    files: Sequence[WrittenFile],
    committed: Sequence[str],
    marker: Marker | None,
    *,
    overwrite: bool = False,
) -> bool:
    """Commit a batch's files, once; return whether this call wrote them.

    `committed`: names of the attempts that wrote the files. TableError if the table has a different
    batch of this number, or if the commit keeps failing.
    """
    written = _append_once(table, files, marker, overwrite=overwrite)
    # The batch is in the table now, so no error below may fail the query.
    try:
        if written and table.adds_files:
            attempts.forget(table.location, committed)
        batch = None if marker is None else marker.batch
        with table.exclusive():
            attempts.sweep(table.location, table.options.pipeline, batch, lambda: _held_now(table))
        _merge_in_turn(table, marker)
    except Exception as error:  # noqa: BLE001 - the next batch sweeps and merges again
        _log.warning(
            "%s: cleanup after the batch failed, retrying after the next one: %s",
            table.location,
            error,
        )
    return written


def is_committed(table: Table, marker: Marker) -> bool:
    """Return whether the table has the marker's batch; TableError if it has a different one."""
    try:
        table.reload()
        table.complete()
        return is_written(table.last_marker(), marker, table.ends_of)
    except OSError as error:
        raise disk_error(table.location, error) from error


def _append_once(
    table: Table, files: Sequence[WrittenFile], marker: Marker | None, *, overwrite: bool
) -> bool:
    reason: Exception | None = None
    for tried in range(COMMIT_TRIES):
        try:
            table.reload()
            table.complete()
            if marker is not None and is_written(table.last_marker(), marker, table.ends_of):
                return False
            if not files and not overwrite and not _names_manifest(marker):
                return True
            for file in files:
                (table.location / file.path).stat()
            flush_directories(table.location, [file.path for file in files])
            table.append(files, marker, overwrite=overwrite)
        except (Conflict, FileNotFoundError) as error:
            # A run that has committed this batch swept missing files: its marker shows that.
            _log.warning("%s: another commit came first, retrying (%s)", table.location, error)
            reason = error
            time.sleep(_PAUSE_SECONDS * (tried + 1))
        except OSError as error:
            raise disk_error(table.location, error) from error
        else:
            return True
    raise TableError(
        f"{table.location}: {COMMIT_TRIES} times others came first or took files ({reason}): "
        "start the query again, or let fewer write at once"
    )


def _names_manifest(marker: Marker | None) -> bool:
    """Return whether the marker must be stored even if the batch has no rows."""
    return marker is not None and marker.quarantine != NOTHING_REFUSED


def _merge_in_turn(table: Table, marker: Marker | None) -> None:
    every = table.options.merge_every
    if marker is None or not every or (marker.batch + 1) % every:
        return
    try:
        table.reload()
        merged = table.merge(marker.batch)
    except Conflict as conflict:
        _log.warning("%s: cannot merge small files, retrying later: %s", table.location, conflict)
        return
    if merged:
        _log.info("%s: merged %d small files", table.location, merged)


def _held_now(table: Table) -> Collection[str]:
    table.reload()
    return table.held()


def _check_owner(table: Table) -> None:
    options = table.options
    others = sorted(set(table.owners()) - {options.pipeline})
    if others and not options.shared:
        raise TableError(
            f"{table.location} is written by pipeline {others[0]}: give pipeline={others[0]} to go "
            "on as that one, another path, or shared=true to let both add to it"
        )


def _has_committed(checkpoint: Path) -> bool:
    commits = checkpoint / "commits"
    return commits.is_dir() and any(name.name.isdigit() for name in commits.iterdir())
