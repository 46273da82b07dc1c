"""A task's Parquet files: one open file per partition, closed at its size limit.

A file is listed under its attempt before it is created, and flushed to disk before the task reports
it; its directory is flushed by the commit. Rows are sorted within a file if `sortBy` is set.
"""

import errno
import os
import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.model.invariant import InvariantError
from headrace.spark.tables.attempts import Attempt
from headrace.spark.tables.dictionaries import dictionary_columns
from headrace.spark.tables.errors import TableError, gone
from headrace.spark.tables.partition import Key, PartitionField, directory_of, split
from headrace.spark.tables.statistics import (
    RowBounds,
    Statistics,
    statistics_of,
    with_footer_bounds,
)

OPEN_FILES_MAX = 64
"""Maximum open files of a task; beyond it, the file with most buffered bytes is closed early."""
SORTED_BYTES_MAX = 64 << 20
"""Maximum buffered bytes of one partition's rows that are sorted together: a sorted file's size."""
ROW_GROUP_BYTES = 32 << 20
WAITING_BYTES_MAX = 192 << 20
"""Maximum buffered bytes of all open files; beyond it, the fullest file is closed early."""


@dataclass(frozen=True)
class Layout:
    """How a table's files are written; pickled to the tasks."""

    location: Path
    schema: pa.Schema
    """Schema of the files: with field ids for Iceberg, without partition columns for Delta."""
    partition_by: tuple[PartitionField, ...] = ()
    sort_by: tuple[str, ...] = ()
    compression: str = "zstd"
    file_bytes: int = 128 << 20
    directory: str = ""
    """Directory below the location: `data` for Iceberg, staging for Parquet."""
    suffix: str = ".parquet"
    keeps_empty_texts: bool = False
    """Whether an empty string is a partition of its own; Delta and Hive treat it as null."""


@dataclass(frozen=True)
class WrittenFile:
    """A file on disk, which becomes part of the table only by a commit."""

    path: str
    """Path relative to the table's location."""
    key: Key
    rows: int
    size: int
    statistics: dict[str, Statistics] = field(default_factory=dict)
    """Statistics by column, of non-nested columns that may have bounds."""
    full_structs: frozenset[str] = frozenset()
    """Names of struct columns without a null."""


class FileWriter:
    """Writes the rows of one attempt to files."""

    def __init__(self, layout: Layout, attempt: Attempt) -> None:
        self._layout = layout
        self._attempt = attempt
        self._open: dict[Key, _OpenFile] = {}
        self.written: list[WrittenFile] = []

    def write_all(self, batches: Iterable[pa.RecordBatch]) -> list[WrittenFile]:
        """Write all rows and return the files. TableError if the disk refuses a write."""
        try:
            for batch in batches:
                for key, rows in split(batch, self._layout.partition_by):
                    self._write(self._kept(key), rows)
            for key in list(self._open):
                self._close(key)
        except OSError as error:
            raise disk_error(self._layout.location, error) from error
        finally:
            for file in self._open.values():
                file.drop()
        return self.written

    def _kept(self, key: Key) -> Key:
        return key if self._layout.keeps_empty_texts else tuple(text or None for text in key)

    def _write(self, key: Key, rows: pa.RecordBatch) -> None:
        file = self._open.get(key)
        if file is None:
            if len(self._open) >= OPEN_FILES_MAX:
                self._close(self._fullest())
            file = self._open[key] = self._begin(key)
        file.write(rows)
        if file.full:
            self._close(key)
        elif sum(each.waiting_bytes for each in self._open.values()) > WAITING_BYTES_MAX:
            self._close(self._fullest())

    def _fullest(self) -> Key:
        return max(self._open, key=lambda key: self._open[key].waiting_bytes)

    def _begin(self, key: Key) -> "_OpenFile":
        directory = directory_of(self._layout.partition_by, key)
        name = f"part-{uuid.uuid4().hex}{self._layout.suffix}"
        path = "/".join(filter(None, (self._layout.directory, directory, name)))
        self._attempt.register(path)
        absolute = self._layout.location / path
        absolute.parent.mkdir(parents=True, exist_ok=True)
        return _OpenFile(self._layout, path, key)

    def _close(self, key: Key) -> None:
        # A file whose close fails stays in `_open`, to be dropped.
        self.written.append(self._open[key].close())
        del self._open[key]


class _OpenFile:
    """A file that is being written; rows are buffered until they fill a row group."""

    def __init__(self, layout: Layout, path: str, key: Key) -> None:
        self._layout, self._path, self._key = layout, path, key
        self._footers: list[pq.FileMetaData] = []
        self._file = (layout.location / path).open("wb")
        self._writer: pq.ParquetWriter | None = None
        self._looked = RowBounds(layout.schema)
        self._waiting: list[pa.RecordBatch] = []
        self.waiting_bytes = 0

    @property
    def full(self) -> bool:
        """Whether the file has reached its size limit."""
        written: int = self._file.tell()
        limit = self._layout.file_bytes
        if self._layout.sort_by:
            return self.waiting_bytes >= min(limit, SORTED_BYTES_MAX)
        return written >= limit

    def write(self, rows: pa.RecordBatch) -> None:
        """Buffer rows; unsorted files write them once they fill a row group."""
        schema = self._layout.schema
        rows = rows.select(schema.names)
        self._waiting.append(rows if rows.schema.equals(schema) else rows.cast(schema))
        self.waiting_bytes += rows.nbytes
        if not self._layout.sort_by and self.waiting_bytes >= ROW_GROUP_BYTES:
            self._write_waiting()

    def close(self) -> WrittenFile:
        """Finish the file, flush it to disk and return its description."""
        self._write_waiting()
        if self._writer is None:
            raise InvariantError("a file is closed that no row was written to")
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        footer = self._footers[0]
        size = (self._layout.location / self._path).stat().st_size
        statistics = statistics_of(footer, self._layout.schema, self._looked)
        full_structs = frozenset(self._looked.full_structs)
        return WrittenFile(self._path, self._key, footer.num_rows, size, statistics, full_structs)

    def drop(self) -> None:
        """Abandon an unfinished file; a later sweep deletes it."""
        if self._writer is not None:
            # Otherwise the writer's destructor would write a footer to the closed file.
            self._writer.is_open = False
        with suppress(OSError):  # A full disk refuses buffered bytes, too.
            self._file.close()

    def _write_waiting(self) -> None:
        if not self._waiting:
            return
        rows = pa.Table.from_batches(self._waiting, self._layout.schema)
        if self._layout.sort_by:
            rows = rows.sort_by([(column, "ascending") for column in self._layout.sort_by])
        self._waiting, self.waiting_bytes = [], 0
        self._looked.look_at(rows)
        if self._writer is None:
            self._writer = self._begin(rows)
        self._writer.write_table(rows)

    def _begin(self, rows: pa.Table) -> pq.ParquetWriter:
        schema = self._layout.schema
        return pq.ParquetWriter(
            self._file,
            schema,
            compression=self._layout.compression,
            use_dictionary=dictionary_columns(rows),
            write_statistics=with_footer_bounds(schema),
            metadata_collector=self._footers,
        )


def disk_error(location: Path, error: OSError) -> TableError:
    """Return the TableError for an OSError of a write: no row of the batch is in the table."""
    if error.errno == errno.ENOENT and not location.exists():
        return gone(location)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return TableError(
            f"no space is left at {location}: nothing of this batch is in the table; make room and "
            "start the query again"
        )
    return TableError(
        f"{location} cannot be written: {error.strerror or error}. Nothing of this batch is in the "
        "table; mend it and start the query again"
    )
