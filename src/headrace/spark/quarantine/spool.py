"""The spool: refused records of a batch that no sink has published yet, in a directory on disk.

    <spool>/<flow>/<query>/sink                              a sink publishes these records
    <spool>/<flow>/<query>/<batch>/<run>/<topic>-<p>/<begin>-<end>.<schema digest>.arrow
    <spool>/<flow>/<query>/<batch>.<digest>.arrow            the batch's manifest

A task writes the file of its range before it yields its last rows; a task that refuses nothing
writes none. Ranges are fixed when a batch is planned, so a task that is retried, speculated on or
scans the topic a second time writes the same file. `<run>` differs at each start of the query: a
task of a dead run that ends late adds nothing to the batch of a newer run, whose decoder may be
another.

The note `sink` shows tasks of later batches that the records of earlier ones are published. The
first batch has no note yet: Spark may run tasks before it makes the batch's writer (a broadcast).
"""

import errno
import json
import os
import uuid
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

import pyarrow as pa

from headrace.model.nouns import TopicPartition
from headrace.spark.durable import make_directories, replace_durably
from headrace.spark.errors import SourceError
from headrace.spark.quarantine.refused import SCHEMA

SUFFIX = ".arrow"
PLANNED, READ = b"headrace.planned", b"headrace.read"
"""Metadata of a spool file: the topic's ranges in the batch as JSON (in the schema), and the number
of records in this range (in the last RecordBatch)."""
_SINK = "sink"


class Planned(NamedTuple):
    """A range of a topic's offsets in a batch: `begin` to `end`, exclusive."""

    partition: int
    begin: int
    end: int


class BatchRun(NamedTuple):
    """A batch in one run of a streaming query."""

    query: str
    """The query's id."""
    batch: int
    run: str
    """The run's id: another at each start of the query."""


class Spool(NamedTuple):
    """The spool of one flow. Pickled to tasks."""

    directory: str
    flow: str

    def query(self, query: str) -> Path:
        """Return the directory of a query."""
        return Path(self.directory) / self.flow / query

    def batch(self, at: BatchRun) -> Path:
        """Return the directory of a batch's files in one run."""
        return self.query(at.query) / str(at.batch) / at.run

    def announce_sink(self, query: str) -> None:
        """Note that a sink publishes this query's refused records. Raises OSError."""
        note = self.query(query) / _SINK
        if not note.exists():
            make_directories(note.parent)
            note.touch()

    def check_published(self, query: str, before: int) -> None:
        """Raise SourceError if batches before this one refused records that no sink published."""
        directory = self.query(query)
        if not directory.is_dir() or (directory / _SINK).exists():
            return
        numbers = [int(path.name) for path in directory.iterdir() if path.name.isdigit()]
        if any(number < before for number in numbers):
            raise SourceError(
                f"mode=QUARANTINE: the query's sink has not published the records that batch"
                f" {min(numbers)} refused: write with format headrace or headrace-table, give it"
                f" quarantineSpool={self.directory} and quarantineFlow={self.flow}, and give the"
                " query a new checkpointLocation, which reads these records again"
            )


class RangeSpool:
    """The refused records of one task's range. Call `finish`, then `discard` in any case."""

    def __init__(
        self,
        spool: Spool,
        at: BatchRun,
        place: TopicPartition,
        offsets: tuple[int, int],
        schema_digest: str,
        planned: tuple[Planned, ...],
    ) -> None:
        """Choose the file; it is created with the first refused record."""
        begin, end = offsets
        name = f"{begin}-{end}.{schema_digest}{SUFFIX}"
        self.path = spool.batch(at) / str(place) / name
        self._schema = SCHEMA.with_metadata({PLANNED: json.dumps(planned).encode()})
        self._temporary = self.path.with_name(f".{name}.{uuid.uuid4().hex}")
        self._file: BinaryIO | None = None
        self._writer: pa.RecordBatchFileWriter | None = None

    def add(self, rows: pa.RecordBatch) -> None:
        """Write refused records. SourceError if the disk is full or the spool cannot be written."""
        try:
            if self._writer is None:
                make_directories(self.path.parent)
                self._file = self._temporary.open("xb")
                self._writer = pa.ipc.new_file(self._file, self._schema)
            self._writer.write_batch(rows)
        except OSError as error:
            raise self._error(error) from error

    def finish(self, read: int) -> None:
        """Complete the file durably, if a record was refused; `read`: records of the range."""
        if self._writer is None or self._file is None:
            return
        try:
            last = pa.RecordBatch.from_pylist([], SCHEMA)
            self._writer.write_batch(last, custom_metadata={READ: str(read)})
            self._writer.close()
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            replace_durably(self._temporary, self.path)
        except OSError as error:
            raise self._error(error) from error
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

    def _error(self, error: OSError) -> SourceError:
        return spool_error(self.path.parent, error)


def spool_error(place: Path, error: OSError) -> SourceError:
    """Return the SourceError for an OSError in the spool."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return SourceError(
            f"no space is left for refused records at {place}: nothing of this batch is written;"
            " make room and start the query again"
        )
    return SourceError(
        f"refused records cannot be spooled at {place}: {error.strerror or error}; driver and"
        " executors need the same writable directory as quarantineSpool"
    )
