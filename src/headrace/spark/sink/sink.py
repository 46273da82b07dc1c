"""The sink as Spark's API: `df.write.format("headrace")` and `df.writeStream.format("headrace")`.

Spark makes a writer on the driver, sends it to the tasks, and makes another one to commit a
streaming batch: state passes between the two only in the tasks' commit messages.
"""

import logging
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from headrace.spark.quarantine.sink_batch import announce
from headrace.spark.sink.sink_columns import check_columns
from headrace.spark.sink.sink_driver import SinkDriver
from headrace.spark.sink.sink_options import SinkOptions, parse_sink_options
from headrace.spark.sink.sink_task import RunToken, SinkMessage, knock, write_rows

_log = logging.getLogger(__name__)


class _Writer:
    """Code shared by batch and streaming writes."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._options = options
        self._columns = check_columns(schema, options.topic, options.value_schema)
        self._token: RunToken | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Begin the run: Spark pickles a writer only to send it to tasks, before they start."""
        if self._options.exactly_once and self._token is None:
            for name in self._options.ignored:
                _log.warning("option %s has no effect here", name)
            with SinkDriver(self._options) as driver:
                self._token = driver.begin()
            if self._options.quarantine is not None:
                checkpoint = self._options.checkpoint or ""
                announce(self._options.quarantine, self._token.query, checkpoint)
        elif self._options.security.guarded and not self._options.exactly_once:
            knock(self._options)
        return self.__dict__

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows. Runs on an executor."""
        return write_rows(self._options, self._token, self._columns, iterator)

    def _commit(self, messages: list[WriterCommitMessage | None], batch: int | None) -> None:
        if self._options.exactly_once:
            with SinkDriver(self._options) as driver:
                driver.commit(_ours(messages), batch)

    def _abort(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._options.exactly_once:
            with SinkDriver(self._options) as driver:
                driver.abort(_ours(messages), self._token)


class BatchWriter(_Writer, DataSourceArrowWriter):
    """A batch write; with `delivery=exactly_once` all or nothing."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the write."""
        self._commit(messages, None)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Abort the write's open transactions."""
        self._abort(messages)


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """A streaming write; each micro-batch is all or nothing with `delivery=exactly_once`."""

    def commit(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: N803 - Spark's name
    ) -> None:
        """Commit the micro-batch."""
        self._commit(messages, batchId)

    def abort(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: N803 - Spark's name
    ) -> None:
        """Abort the micro-batch's open transactions."""
        self._abort(messages)


def batch_writer(options: Mapping[str, str], schema: StructType) -> BatchWriter:
    """Return the writer of a batch write. Raises OptionError."""
    return BatchWriter(parse_sink_options(options, streaming=False), schema)


def stream_writer(options: Mapping[str, str], schema: StructType) -> StreamWriter:
    """Return the writer of a streaming write. Raises OptionError."""
    return StreamWriter(parse_sink_options(options, streaming=True), schema)


def _ours(messages: list[WriterCommitMessage | None]) -> list[SinkMessage]:
    return [message for message in messages if isinstance(message, SinkMessage)]
