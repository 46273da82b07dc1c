"""A file of refused records in the spool: whole and durable under its name, or not there."""

import errno
import os
import uuid
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from headrace.spark.durable import make_directories, replace_durably
from headrace.spark.errors import SourceError
from headrace.spark.quarantine.refused import SCHEMA


class RecordFile:
    """A file that one task writes. Call `finish`, then `discard` in any case.

    All its methods raise SourceError if the disk is full or the spool cannot be written.
    """

    def __init__(self, path: Path, metadata: dict[bytes, bytes] | None = None) -> None:
        """Choose the file; it is created with its first record. `metadata`: of its schema."""
        self.path = path
        self._schema = SCHEMA.with_metadata(metadata)
        self._temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        self._file: BinaryIO | None = None
        self._writer: pa.RecordBatchFileWriter | None = None

    @property
    def has_records(self) -> bool:
        """Whether records were added since the file was begun or finished."""
        return self._writer is not None

    def add(self, rows: pa.RecordBatch, metadata: dict[bytes, str] | None = None) -> None:
        """Write rows with the schema of `refused`; `metadata`: of this RecordBatch."""
        try:
            if self._writer is None:
                make_directories(self.path.parent)
                self._file = self._temporary.open("xb")
                self._writer = pa.ipc.new_file(self._file, self._schema)
            self._writer.write_batch(rows, custom_metadata=metadata)
        except OSError as error:
            raise spool_error(self.path.parent, error) from error

    def finish(self) -> None:
        """Complete the file durably; a file without records does not come into being."""
        if self._writer is None or self._file is None:
            return
        try:
            self._writer.close()
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            replace_durably(self._temporary, self.path)
        except OSError as error:
            raise spool_error(self.path.parent, error) from error
        self._writer = None

    def discard(self) -> None:
        """Delete the file if it was not completed."""
        if self._writer is None:
            return
        with suppress(OSError, pa.ArrowInvalid):
            self._writer.close()
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
        with suppress(OSError):
            self._temporary.unlink()
        self._writer = None


def spool_error(place: Path, error: OSError) -> SourceError:
    """Return the SourceError for an OSError in the spool."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return SourceError(
            f"no space is left for refused records at {place}: nothing of this batch is written;"
            " make room and start the query again"
        )
    other = ""
    if isinstance(error, FileNotFoundError):  # a task's file, which only its own run needs
        other = ", unless a newer run of the query has written this batch"
    return SourceError(
        f"refused records cannot be spooled at {place}: {error.strerror or error}; driver and"
        f" executors need the same writable directory as quarantineSpool{other}"
    )
