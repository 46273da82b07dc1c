"""A task of a write: encodes rows to record batches, in a transaction that it leaves open.

Each worker process has transactional ids of its own that no other process uses. So only the driver,
a timeout or the next run ends its open transactions.

The driver aborts open transactions when a write ends, and then never looks again. An attempt that
begins its transaction later, because its worker was slow or is a speculative copy, must notice that
itself. So the end of each write first changes the driver's own transactional id:

    driver   take over its id again, or decide  ->  abort open transactions
    task     begin a transaction                ->  check the driver's id: changed? then abort

Whichever order the four steps have, driver or task sees the other's first step.
"""

import os
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from headrace.arrow.write.encode import RowEncoder, RowError
from headrace.client.client import Client
from headrace.client.producer import transactions
from headrace.client.producer.producer import Producer
from headrace.client.producer.transactions import Writer
from headrace.client.sync import run
from headrace.client.transport.port import ClientError
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.spark.broker_errors import sink_error
from headrace.spark.checks.division import Division, Tally
from headrace.spark.errors import SinkError
from headrace.spark.quarantine.check_task import spool_failed
from headrace.spark.quarantine.range_task import current_batch
from headrace.spark.sink.sink_columns import SinkColumns
from headrace.spark.sink.sink_options import SinkOptions

_ROWS_MAX, _BYTES_MAX = 64 * 1024, 16 << 20
"""Rows and bytes that are encoded together: fewer and larger batches for each partition."""
NOT_DECIDED = "Empty"
"""State of the driver's transactional id between the start of a write and its decision."""


@dataclass(frozen=True)
class RunToken:
    """Identifies one write; sent from the driver to its tasks, and back in their messages."""

    write: str
    """Unique id of this write; another attempt at the same batch has another one."""
    driver: Writer
    query: str
    decided: int
    """Number of the batch decided last; -1: none."""


@dataclass(frozen=True)
class SinkMessage(WriterCommitMessage):
    """A task's result: the transaction that it left open; None if it wrote no rows."""

    token: RunToken | None
    writer: Writer | None
    rows: int
    tally: Tally | None = None
    """Counts of rows by the checks that they fail; None without checks."""
    run: str = ""
    """Id of the query's run; empty without a quarantine."""
    refused: str = ""
    """Path of the spooled records whose rows fail a check; empty without any."""


class _WorkerIds:
    """The transactional ids of this process, numbered within each write."""

    def __init__(self) -> None:
        self._process = -1
        self._name = ""
        self._taken: dict[str, tuple[str, int]] = {}

    def take(self, prefix: str, write: str) -> str:
        """Return a transactional id that no other task of this write and no other process uses."""
        if self._process != os.getpid():  # Spark forks workers.
            self._process, self._name = os.getpid(), uuid.uuid4().hex[:16]
            self._taken = {}
        before, count = self._taken.get(prefix, (write, 0))
        count = count + 1 if before == write else 1
        self._taken[prefix] = (write, count)
        return f"{prefix}{self._name}-{count}"


_ids = _WorkerIds()


def client_of(options: SinkOptions) -> Client:
    """Return a client with the sink's timeouts."""
    return options.security.client(
        options.bootstrap,
        client_id=options.client_id,
        request_timeout_seconds=options.request_timeout_ms / 1000,
        retry_seconds=options.delivery_timeout_ms / 1000,
    )


def knock(options: SinkOptions) -> None:
    """Connect once, so that the driver reports a refused connection instead of each task.
    Raises SinkError."""
    with client_of(options) as client:
        try:
            run(client.metadata([]))
        except (ClientError, ApiError) as error:
            raise sink_error(error) from error


def write_rows(
    options: SinkOptions,
    token: RunToken | None,
    columns: SinkColumns,
    batches: Iterator[pa.RecordBatch],
) -> SinkMessage:
    """Write one task's rows and return its message. SinkError, after aborting if possible."""
    if token is not None and _is_decided(token):
        return SinkMessage(token, None, 0)
    division = None if options.checks is None else Division(options.checks)
    kept = batches if division is None else division.divided(batches)
    with client_of(options) as client:
        task = _Task(client, options, token)
        try:
            for rows in _gathered(kept, columns):
                task.write(rows)
            run(task.producer.flush())
            refused = spool_failed(options.quarantine, options.checks, division)
        except (RowError, ClientError, ApiError) as error:
            task.abort()
            raise sink_error(error) from error
        except BaseException:
            task.abort()
            raise
        tally = None if division is None else division.tally
        run_id = "" if options.quarantine is None else current_batch().run
        return SinkMessage(token, task.writer, task.rows, tally, run_id, refused)


def _is_decided(token: RunToken) -> bool:
    """Return whether an earlier run has decided this batch, so that its rows are written
    already."""
    context = TaskContext.get()
    batch = context.getLocalProperty("streaming.sql.batchId") if context is not None else None
    return batch is not None and int(batch) <= token.decided


def _gathered(batches: Iterator[pa.RecordBatch], columns: SinkColumns) -> Iterator[pa.Table]:
    """Gather batches into tables of at least _ROWS_MAX rows or _BYTES_MAX bytes, but the last."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        waiting.append(_record_rows(batch, columns))
        rows, size = rows + batch.num_rows, size + waiting[-1].nbytes
        if rows >= _ROWS_MAX or size >= _BYTES_MAX:
            yield pa.Table.from_batches(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def _record_rows(batch: pa.RecordBatch, columns: SinkColumns) -> pa.RecordBatch:
    """Return the columns of the record, the encoded value among them. Raises RowError."""
    rows = batch.select(list(columns.record))
    if columns.encoding is None:
        return rows
    arrays = [*rows.columns, columns.encoding.values(batch)]
    return pa.RecordBatch.from_arrays(arrays, [*columns.record, "value"])


class _Task:
    """An attempt at one task."""

    def __init__(self, client: Client, options: SinkOptions, token: RunToken | None) -> None:
        self._client = client
        self._options = options
        self._token = token
        self._added: set[TopicPartition] = set()
        self.producer = Producer(client, compression=options.codec, batch_bytes=options.batch_bytes)
        self.writer: Writer | None = None
        self.rows = 0
        self._encoder = RowEncoder(
            lambda topic: run(self.producer.partitions(topic)),
            batch_bytes=options.batch_bytes,
            codec=options.codec,
        )

    def write(self, rows: pa.Table) -> None:
        """Encode and send these rows; returns before all are acknowledged."""
        self._encoder.batch_bytes = self.producer.batch_bytes
        encoded = list(self._encoder.encode(rows, self._options.topic))
        if self._token is not None:
            self._add({partition for partition, _ in encoded} - self._added)
        for partition, batch in encoded:
            run(self.producer.send_encoded(partition, batch))
        self.rows += rows.num_rows

    def _add(self, partitions: set[TopicPartition]) -> None:
        if not partitions:
            return
        begins = self.writer is None
        if self.writer is None:
            self.writer = self._begin()
            self.producer.write_as(*self.writer)
            # Checked before, too: a worker that Spark kills between the next two requests leaves no
            # transaction.
            self._check_awaited()
        run(transactions.add_partitions(self._client, self.writer, partitions))
        self._added |= partitions
        if begins:
            try:
                self._check_awaited()
            except SinkError:
                # With retries, as nothing else would abort this transaction.
                run(transactions.end(self._client, self.writer, commit=False))
                raise

    def _check_awaited(self) -> None:
        """Raise SinkError if the driver has ended this write, or a newer run has begun."""
        if self._token is None:
            return
        driver = self._token.driver
        found = run(transactions.describe(self._client, [driver.transactional_id]))
        there = found.get(driver.transactional_id)
        if there is None or there.writer != driver or there.state != NOT_DECIDED:
            raise SinkError(
                f"pipeline {self._options.pipeline}: this attempt comes too late and writes"
                " nothing: its write has ended, or a newer run of the pipeline has begun"
            )

    def _begin(self) -> Writer:
        options = self._options
        transactional_id = _ids.take(options.prefix, self._token.write if self._token else "")
        two_phase = options.two_phase
        if two_phase is None:
            two_phase = run(transactions.offers_two_phases(self._client))
        try:
            return self._take(transactional_id, two_phase)
        except ApiError as error:
            if error.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                raise SinkError(
                    f"kafka.transaction.timeout.ms: {options.transaction_timeout_ms} is more than"
                    " the brokers' transaction.max.timeout.ms allows"
                ) from error
            allowed = error.code is not ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            if allowed or not two_phase or options.two_phase:
                raise
            return self._take(transactional_id, two_phase=False)

    def _take(self, transactional_id: str, two_phase: bool) -> Writer:
        timeout_ms = self._options.transaction_timeout_ms
        taking = transactions.take_id(
            self._client, transactional_id, timeout_ms, two_phase=two_phase
        )
        return run(taking)

    def abort(self) -> None:
        """Abort the task's transaction if a broker answers now; else the next run does."""
        if self.writer is not None:
            self._client.retry_seconds = 0.0
            with suppress(ClientError, ApiError):
                run(transactions.end(self._client, self.writer, commit=False))
