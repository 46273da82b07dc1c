"""The data source `headrace-table` as Spark's API sees it.

Tasks write files and return their names; the driver commits them once per batch. Spark creates a
writer for each batch, in processes that stay alive. Creating it opens and checks the table.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from headrace.model.invariant import InvariantError
from headrace.spark.checks.division import Division, Tally
from headrace.spark.checks.verdict import check_batch, report, sum_of
from headrace.spark.checks.with_failed import written_rows
from headrace.spark.errors import OptionError
from headrace.spark.quarantine.check_task import spool_failed
from headrace.spark.quarantine.manifest import NOTHING_REFUSED
from headrace.spark.quarantine.range_task import current_batch
from headrace.spark.quarantine.sink_batch import CheckedRows, QuarantinedBatch, announce
from headrace.spark.source.checkpoint import query_id
from headrace.spark.tables.attempts import Attempt
from headrace.spark.tables.errors import TableError
from headrace.spark.tables.files import FileWriter, Layout, WrittenFile
from headrace.spark.tables.marker import Marker, marker_of_batch
from headrace.spark.tables.new_columns import digest_of_columns
from headrace.spark.tables.options import TableFormat, TableOptions, parse_table_options
from headrace.spark.tables.table import Table, commit, is_committed, open_table

NAME = "headrace-table"


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """A task's result: its attempt's name and the files written."""

    attempt: str
    files: tuple[WrittenFile, ...]
    tally: Tally | None = None
    """Counts of rows by the checks that they fail; None without checks."""
    run: str = ""
    """Id of the query's run; empty without a quarantine."""
    refused: str = ""
    """Path of the spooled records whose rows fail a check; empty without any."""


class HeadraceTable(DataSource):
    """The Spark data source `format("headrace-table")`, which writes tables and reads none."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return NAME

    def schema(self) -> StructType:
        """Refuse reads: tables are read with their formats' own readers."""
        raise OptionError(
            "headrace-table writes tables; read them with Spark's parquet, DuckDB, Polars, "
            "pyarrow, deltalake or pyiceberg"
        )

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return the writer of a batch write."""
        return BatchTableWriter(self.options, schema, overwrite)

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        """Return the writer of a micro-batch."""
        return StreamTableWriter(self.options, schema, overwrite)


class StreamTableWriter(DataSourceStreamArrowWriter):
    """Writes one micro-batch."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        self._options = parse_table_options(options, streaming=True)
        self._overwrite = overwrite
        rows = written_rows(schema, self._options.checks)
        self._layout = open_table(table_of(self._options), arrow_schema(rows))
        self._columns = digest_of_columns(rows.names)
        if self._options.quarantine is not None:
            checkpoint = str(self._checkpoint)
            announce(self._options.quarantine, query_id(checkpoint), checkpoint)

    @property
    def _checkpoint(self) -> Path:
        if self._options.checkpoint is None:
            raise InvariantError("a stream's options have a checkpoint")
        return self._options.checkpoint

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write one task's rows. Runs on an executor."""
        context = TaskContext.get()
        batch = context and context.getLocalProperty("streaming.sql.batchId")
        options = self._options
        division = None if options.checks is None else Division(options.checks)
        written = _write(self._layout, options, int(batch or 0), iterator, division)
        if options.quarantine is None:
            return written
        refused = spool_failed(options.quarantine, options.checks, division)
        return replace(written, run=current_batch().run, refused=refused)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Commit the micro-batch, exactly once even if called repeatedly."""
        pipeline, checkpoint = self._options.pipeline, self._checkpoint
        marker = marker_of_batch(pipeline, checkpoint, batchId, self._columns)
        if self._options.quarantine is None:
            _commit(self._options, messages, marker, overwrite=self._overwrite)
            return
        quarantined = QuarantinedBatch(self._options.quarantine, query_id(str(checkpoint)), batchId)
        table = table_of(self._options)
        if not is_committed(table, marker):
            written = [message for message in messages if isinstance(message, Written)]
            checked = CheckedRows(
                tuple(Path(message.refused) for message in written if message.refused),
                sum_of(message.tally for message in written).rows,
                str(checkpoint),
            )
            digest = quarantined.collect({message.run for message in written}, checked)
            marker = replace(marker, quarantine=digest)
            if _commit(self._options, messages, marker, overwrite=self._overwrite):
                quarantined.publish(marker.quarantine)
                return
        # The table has the batch with the manifest that counts, whatever these tasks refused.
        table.reload()
        last = table.last_marker()
        quarantined.publish(NOTHING_REFUSED if last is None else last.quarantine)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Do nothing: a failed commit may be in the table. The next commit deletes leftover
        files."""


class BatchTableWriter(DataSourceArrowWriter):
    """Writes one batch job."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        self._options = parse_table_options(options, streaming=False)
        self._overwrite = overwrite
        rows = written_rows(schema, self._options.checks)
        self._layout = open_table(table_of(self._options), arrow_schema(rows))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write one task's rows. Runs on an executor."""
        options = self._options
        division = None if options.checks is None else Division(options.checks)
        return _write(self._layout, options, options.version, iterator, division)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit the job; with txnAppId and txnVersion exactly once."""
        version = self._options.version
        marker = None if version is None else Marker(self._options.pipeline, version)
        _commit(self._options, messages, marker, overwrite=self._overwrite)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Do nothing: a failed commit may be in the table."""


def table_of(options: TableOptions) -> Table:
    """Return the table for the options; imports only the library of its format."""
    match options.format:
        case TableFormat.DELTA:
            from headrace.spark.tables.delta import Delta

            return Delta(options)
        case TableFormat.ICEBERG:
            from headrace.spark.tables.iceberg import Iceberg

            return Iceberg(options)
        case TableFormat.PARQUET:
            from headrace.spark.tables.parquet import ParquetDirectory

            return ParquetDirectory(options)


def arrow_schema(schema: StructType) -> pa.Schema:
    """Convert Spark's schema to Arrow's, with timestamps in UTC."""
    return to_arrow_schema(schema, timezone="UTC")


def _write(
    layout: Layout,
    options: TableOptions,
    batch: int | None,
    batches: Iterator[pa.RecordBatch],
    division: Division | None,
) -> Written:
    attempt = Attempt(layout.location, options.pipeline, batch)
    rows = batches if division is None else division.divided(batches)
    files = FileWriter(layout, attempt).write_all(rows)
    return Written(attempt.name, tuple(files), tally=None if division is None else division.tally)


def _commit(
    options: TableOptions,
    messages: Sequence[WriterCommitMessage | None],
    marker: Marker | None,
    *,
    overwrite: bool,
) -> bool:
    """Commit a batch's files; return whether this call wrote them."""
    written = [message for message in messages if isinstance(message, Written)]
    if len(written) < len(messages):
        raise TableError("a task says nothing of what it wrote: the batch is not committed")
    table, checks = table_of(options), options.checks
    tally = sum_of(message.tally for message in written)
    # A batch that the table has is written, whatever its rows fail by now.
    if checks is not None and (marker is None or not is_committed(table, marker)):
        check_batch(checks, tally, None if marker is None else marker.batch)
    committed = commit(
        table,
        [file for message in written for file in message.files],
        [message.attempt for message in written if message.files],
        marker,
        overwrite=overwrite,
    )
    if committed and checks is not None and marker is not None:
        report(checks, tally, marker.batch)
    return committed
