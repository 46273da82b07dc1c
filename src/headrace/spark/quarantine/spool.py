"""The spool: refused records of a batch that no sink has published yet, in a directory on disk.

    <spool>/<flow>/<query>/sink                              a sink publishes these records
    <spool>/<flow>/<query>/<batch>/<run>/<topic>-<p>/<begin>-<end>.<schema digest>.arrow
    <spool>/<flow>/<query>/<batch>/<run>/<topic>-<p>/<begin>-<end>.replayed
    <spool>/<flow>/<query>/<batch>/<run>/<attempt>.checked   rows that fail a check
    <spool>/<flow>/<query>/<batch>.<digest>.arrow            the batch's manifest

A task writes the file of its range before it yields its last rows; a task that refuses nothing
writes none. Ranges are fixed when a batch is planned, so a task that is retried, speculated on or
scans the topic a second time writes the same file. `<run>` differs at each start of the query: a
task of a dead run that ends late adds nothing to the batch of a newer run, whose decoder may be
another.

A task that writes rows to a sink spools the records of those that fail a check in a file of its
own attempt, which counts if the attempt's message names it. Records of a retry topic are spooled as
they are read (`.replayed`): their first position leads to the topic, which may have deleted them.

The note `sink` shows tasks of later batches that the records of earlier ones are published. The
first batch has no note yet: Spark may run tasks before it makes the batch's writer (a broadcast).
"""

import json
import uuid
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from headrace.model.nouns import TopicPartition
from headrace.spark.durable import make_directories
from headrace.spark.errors import SourceError
from headrace.spark.quarantine.record_file import RecordFile
from headrace.spark.quarantine.refused import SCHEMA

SUFFIX, REPLAYED, CHECKED = ".arrow", ".replayed", ".checked"
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

    def replayed(self, at: BatchRun, place: TopicPartition, offsets: tuple[int, int]) -> Path:
        """Return the file of the records that a task reads from a retry topic."""
        begin, end = offsets
        return self.batch(at) / str(place) / f"{begin}-{end}{REPLAYED}"

    def all_replayed(self, at: BatchRun) -> list[Path]:
        """Return the files of all records that a batch reads from retry topics."""
        return sorted(self.batch(at).glob(f"*/[!.]*{REPLAYED}"))

    def checked(self, at: BatchRun) -> Path:
        """Return a new file for records of rows that fail a check, of one attempt."""
        return self.batch(at) / f"{uuid.uuid4().hex}{CHECKED}"

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
        path = spool.batch(at) / str(place) / f"{begin}-{end}.{schema_digest}{SUFFIX}"
        self._file = RecordFile(path, {PLANNED: json.dumps(planned).encode()})

    @property
    def path(self) -> Path:
        """The file's path."""
        return self._file.path

    def add(self, rows: pa.RecordBatch) -> None:
        """Write refused records. SourceError if the disk is full or the spool cannot be written."""
        self._file.add(rows)

    def finish(self, read: int) -> None:
        """Complete the file durably, if a record was refused; `read`: records of the range."""
        if self._file.has_records:
            self._file.add(pa.RecordBatch.from_pylist([], SCHEMA), {READ: str(read)})
            self._file.finish()

    def discard(self) -> None:
        """Delete the file if it was not completed."""
        self._file.discard()
