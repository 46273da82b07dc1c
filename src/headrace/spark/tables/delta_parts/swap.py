"""Replace named files of a Delta table by files of another table, in one version.

The commit removes exactly the named files or fails: deltalake tries it once. With its retries, a
commit after a compaction of these files would succeed and double their rows.
"""

from __future__ import annotations

import logging
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from headrace.model.errors import HeadraceError
from headrace.spark.durable import flush_directories
from headrace.spark.tables.attempts import Attempt, forget
from headrace.spark.tables.delta_parts.follow import RowsChangedError, version_of_transaction
from headrace.spark.tables.delta_parts.snapshot import Snapshot, TableFile, snapshot_of_table
from headrace.spark.tables.delta_parts.statistics import log_statistics
from headrace.spark.tables.errors import TableError
from headrace.spark.tables.files import WrittenFile, disk_error
from headrace.spark.tables.statistics import RowBounds, statistics_of
from headrace.spark.tables.table import COMMIT_TRIES

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

_PAUSE_SECONDS = 0.05
_log = logging.getLogger(__name__)


class FilesMovedError(HeadraceError):
    """Files that are to be removed are no longer part of the table."""


@dataclass(frozen=True)
class Swap:
    """Files to remove from a table and files to add."""

    application: str
    """The application transaction that the commit stores, and by which it is found again."""
    number: int
    """Its version, above that of earlier swaps of this application."""
    since: int
    """A version of the table before the commit."""
    removed: frozenset[str]
    """Paths on disk, relative to the table's location."""
    added: tuple[TableFile, ...]
    source: Path
    """Directory that the added files' paths are relative to; the table's own: they are there."""


def swap_files(location: Path, swap: Swap) -> int:
    """Commit a swap once and return its version, also if an earlier call has committed it.

    FilesMovedError if a file to remove is not in the table. TableError if a file to add is missing,
    the disk refuses a link, or commits of others keep coming first.
    """
    try:
        return _swap(location, swap)
    except OSError as error:
        raise disk_error(location, error) from error


def transaction_of(location: Path, application: str) -> int:
    """Return the number of an application's last swap in the table; 0 if it has none."""
    return DeltaTable(str(location)).transaction_version(application) or 0


def _swap(location: Path, swap: Swap) -> int:
    attempt = Attempt(location, swap.application, None)
    described: list[WrittenFile] | None = None
    for tried in range(COMMIT_TRIES):
        table = DeltaTable(str(location))
        if (table.transaction_version(swap.application) or 0) >= swap.number:
            break
        snapshot = snapshot_of_table(table, location)
        _check(snapshot, swap)
        if described is None:
            described = _described(swap)
            _link(location, swap, attempt)
        try:
            _commit(table, snapshot, swap, described)
        except CommitFailedError as error:
            _log.warning("%s: another commit came first, retrying (%s)", location, error)
            time.sleep(_PAUSE_SECONDS * (tried + 1))
        else:
            break
    else:
        raise TableError(
            f"{location}: {COMMIT_TRIES} times others came first: let fewer write at once, and "
            "start this again"
        )
    forget(location, [attempt.name])
    until = DeltaTable(str(location)).version()
    with suppress(RowsChangedError):  # The entry has expired; the table's state has the number.
        found = version_of_transaction(location, swap.application, swap.number, swap.since, until)
        return until if found is None else found
    return until


def _check(snapshot: Snapshot, swap: Swap) -> None:
    missing = swap.removed - {file.path for file in snapshot.files}
    if missing:
        raise FilesMovedError(
            f"{snapshot.location}: {len(missing)} of {len(swap.removed)} files are not part of "
            f"version {snapshot.version}, such as {min(missing)}"
        )


def _described(swap: Swap) -> list[WrittenFile]:
    """Return the files to add with statistics from their rows. TableError if one is missing."""
    found = []
    for file in swap.added:
        path = swap.source / file.path
        try:
            found.append(_written_file(path, file))
        except (FileNotFoundError, pa.ArrowInvalid) as error:
            raise TableError(f"{path} is deleted or damaged, and cannot be added again") from error
    return found


def _written_file(path: Path, file: TableFile) -> WrittenFile:
    with pq.ParquetFile(path) as parquet:
        schema = parquet.schema_arrow
        looked = RowBounds(schema)
        for rows in parquet.iter_batches():
            looked.look_at(pa.Table.from_batches([rows]))
        statistics = statistics_of(parquet.metadata, schema, looked)
        rows_count = parquet.metadata.num_rows
    size = path.stat().st_size
    full_structs = frozenset(looked.full_structs)
    return WrittenFile(file.path, file.key, rows_count, size, statistics, full_structs)


def _link(location: Path, swap: Swap, attempt: Attempt) -> None:
    """Link the files into the table's directory; links of an earlier call stay."""
    if swap.source == location:
        return
    for file in swap.added:
        attempt.register(file.path)
        source, target = swap.source / file.path, location / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(source, target)
        except FileExistsError:
            if not target.samefile(source):
                raise TableError(f"{target} is another file than {source}: move it away") from None
        # A foreign VACUUM deletes files by their age until the commit names them.
        os.utime(target)
    flush_directories(location, [file.path for file in swap.added])


def _commit(
    table: DeltaTable, snapshot: Snapshot, swap: Swap, added: Sequence[WrittenFile]
) -> None:
    now_ms = int(time.time() * 1000)
    inside = [field for field in snapshot.columns if field.name not in snapshot.partition_by]
    removes = [
        RemoveAction(
            path=file.path,
            data_change=True,
            deletion_timestamp=now_ms,
            size=file.size,
            partition_values=_values(snapshot, file.key),
        )
        for file in snapshot.files
        if file.path in swap.removed
    ]
    adds = [
        AddAction(
            path=file.path,
            size=file.size,
            partition_values=_values(snapshot, file.key),
            modification_time=now_ms,
            data_change=True,
            stats=log_statistics(file, inside),
        )
        for file in added
    ]
    table.create_write_transaction(
        [*removes, *adds],
        "append",
        table.schema(),
        list(snapshot.partition_by),
        commit_properties=CommitProperties(
            app_transactions=[Transaction(swap.application, swap.number)], max_commit_retries=0
        ),
    )


def _values(snapshot: Snapshot, key: Collection[str | None]) -> dict[str, str | None]:
    return dict(zip(snapshot.partition_by, key, strict=True))
