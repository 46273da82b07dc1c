"""What each format does, and the one commit around it.

A commit reads the table's marker, and writes only where it is another batch's. Where somebody else
committed meanwhile, the marker is read again before the next try: that was perhaps another run of
the same pipeline, with the same batch.
"""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pyarrow as pa

from headrace.spark.tables import attempts
from headrace.spark.tables.errors import Conflict, TableError, gone
from headrace.spark.tables.files import Layout, WrittenFile, disk_error
from headrace.spark.tables.marker import Marker, is_written
from headrace.spark.tables.options import TableOptions
from headrace.spark.tables.partition import check_fields

COMMIT_TRIES = 10
_PAUSE_SECONDS = 0.05
_log = logging.getLogger(__name__)


class Table(ABC):
    """One table of one format. Made anew for each batch; knows nothing between batches."""

    location: Path
    """Directory that the paths of files are relative to."""

    def __init__(self, options: TableOptions) -> None:
        self.options = options

    @abstractmethod
    def exists(self) -> bool:
        """Tell whether the table is there."""

    @abstractmethod
    def open(self, schema: pa.Schema) -> Layout:
        """Make the table if it is not there; return how files of these rows are written.

        TableError where the table's columns or partitions are others.
        """

    @abstractmethod
    def reload(self) -> None:
        """Look at the table as it is now."""

    @abstractmethod
    def last_marker(self) -> Marker | None:
        """Return the pipeline's last batch, as of the last look."""

    def ends_of(self, marker: Marker) -> Sequence[str]:
        """Return where the sources ended with the last batch, where the table still knows it."""
        return marker.ends

    @abstractmethod
    def owners(self) -> Collection[str]:
        """Return the pipelines that have written to the table, as of the last look."""

    @abstractmethod
    def append(
        self, files: Sequence[WrittenFile], marker: Marker | None, *, overwrite: bool
    ) -> None:
        """Commit files and marker as one, on what the last look saw; Conflict if that is old.

        `overwrite`: what the table held goes with the same commit.
        """

    @abstractmethod
    def held(self) -> Collection[str]:
        """Return the paths that the table holds, as of the last look."""

    @abstractmethod
    def merge(self, batch: int) -> int:
        """Make large files of small ones, `mergeBytesMax` at most; returns how many went."""

    def exclusive(self) -> AbstractContextManager[object]:
        """Keep others from committing, where a commit without it could be of files just deleted."""
        return nullcontext()

    def complete(self) -> None:  # noqa: B027 - most formats leave nothing undone
        """Finish what a commit before this one left undone."""


def open_table(table: Table, schema: pa.Schema) -> Layout:
    """Return how the rows of this schema are written; TableError where the table has gone."""
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
    return layout


def commit(
    table: Table,
    files: Sequence[WrittenFile],
    committed: Sequence[str],
    marker: Marker | None,
    *,
    overwrite: bool = False,
) -> bool:
    """Commit a batch's files, once; returns whether the table did not hold the batch before.

    `committed`: names of the attempts whose files these are. TableError for another batch under
    the same number, and where the commit is not to be had.
    """
    written = _append_once(table, files, marker, overwrite=overwrite)
    # From here on the batch is in the table: nothing below may fail the query.
    try:
        if written and table.options.upsert is None:
            attempts.forget(table.location, committed)
        batch = None if marker is None else marker.batch
        with table.exclusive():
            attempts.sweep(table.location, table.options.pipeline, batch, lambda: _held_now(table))
        _merge_in_turn(table, marker)
    except Exception as error:  # noqa: BLE001 - the next batch sweeps and merges again
        _log.warning("%s: not tidied up after batch: %s", table.location, error)
    return written


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
            if not files and not overwrite:
                return True
            for file in files:
                (table.location / file.path).stat()
            table.append(files, marker, overwrite=overwrite)
        except (Conflict, FileNotFoundError) as error:
            # Files that are gone were swept by a run that has committed this batch: see its marker.
            _log.warning("%s: committed to by another meanwhile (%s)", table.location, error)
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


def _merge_in_turn(table: Table, marker: Marker | None) -> None:
    every = table.options.merge_every
    if marker is None or not every or (marker.batch + 1) % every:
        return
    try:
        table.reload()
        merged = table.merge(marker.batch)
    except Conflict as conflict:
        _log.warning("%s: small files stay until the next turn: %s", table.location, conflict)
        return
    if merged:
        _log.info("%s: %d small files merged", table.location, merged)


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
