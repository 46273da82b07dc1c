"""Named points of the quarantine's protocol at which a live Spark driver's processes wait.

The driver registers the source and the sinks below. Their readers and writers are pickled by name,
so each process of Spark's that reads, writes or commits imports this module, which plants them.
"""

import os
import shutil
from collections.abc import Callable
from typing import Any

from pyspark.sql.datasource import DataSourceStreamArrowWriter, DataSourceStreamReader
from pyspark.sql.types import StructType

from headrace.client.producer import transactions
from headrace.client.sync import run
from headrace.spark.quarantine import publish, sink_batch
from headrace.spark.quarantine.spool import RangeSpool
from headrace.spark.sink import sink_task
from headrace.spark.sink.decisions import DecisionLog
from headrace.spark.sink.sink import StreamWriter
from headrace.spark.sink.sink_options import parse_sink_options
from headrace.spark.source.options import parse_options
from headrace.spark.source.source import HeadraceSource
from headrace.spark.source.stream_reader import StreamReader
from headrace.spark.tables import sink as table_sink
from headrace.spark.tables.delta import Delta
from headrace.spark.tables.sink import HeadraceTable, StreamTableWriter
from tests.spark_kills.live_points import POINT, reach
from tests.spark_kills.quarantine_points import CHECK_POINTS

AMID_PUBLISHING = "amid publishing"
LIVE_POINTS = tuple(f"{query}: {point}" for query in ("topic", "table") for point in CHECK_POINTS)


def _is_named(name: str) -> bool:
    """Whether a process of this driver is to wait at a point."""
    return os.environ.get(POINT, "").partition(": ")[2] == name


def _here(name: str) -> None:
    """Be at a point of the one query that runs."""
    if _is_named(name):
        reach(os.environ[POINT])


def _around(owner: Any, name: str, what: str) -> None:
    work: Callable[..., Any] = getattr(owner, name)

    def reached(*arguments: Any, **named: Any) -> Any:
        _here(f"before {what}")
        result = work(*arguments, **named)
        _here(f"after {what}")
        return result

    setattr(owner, name, reached)


def _around_later(owner: Any, name: str, what: str, counts: Callable[..., bool]) -> None:
    work: Callable[..., Any] = getattr(owner, name)

    async def reached(*arguments: Any, **named: Any) -> Any:
        if counts(*arguments, **named):
            _here(f"before {what}")
        result = await work(*arguments, **named)
        if counts(*arguments, **named):
            _here(f"after {what}")
        return result

    setattr(owner, name, reached)


def _amid_publishing() -> None:
    """Be at the point when the brokers have the first record of a publication, and no other."""
    publication: Any = publish._Publication
    send = publication._send

    def sent(self: Any, producer: Any, *more: Any) -> None:
        send(self, producer, *more)
        if _is_named(AMID_PUBLISHING):
            run(producer.flush())
            _here(AMID_PUBLISHING)

    publication._send = sent


def _plant() -> None:
    _amid_publishing()
    _around(RangeSpool, "finish", "the spool's file")
    for module in (table_sink, sink_task):
        _around(module, "spool_failed", "the check's file")
    _around(sink_batch, "write_manifest", "the manifest")
    _around(Delta, "append", "the sink's commit")
    _around_later(DecisionLog, "decide", "the sink's commit", lambda *_, **__: True)
    _around(sink_batch, "publish", "publishing")
    _around_later(
        transactions,
        "end",
        "the publication's end",
        lambda _, writer, **__: writer.transactional_id.endswith(".quarantine"),
    )
    rmtree: Any = shutil.rmtree

    def swept(path: Any, *more: Any, **named: Any) -> None:
        rmtree(path, *more, **named)
        if "/spool/" in str(path):
            _here("amid the sweep")

    spark_uses: Any = shutil
    spark_uses.rmtree = swept


if POINT in os.environ:
    _plant()


class PlantedReader(StreamReader):
    """Reads a topic, with the points."""


class PlantedTableWriter(StreamTableWriter):
    """Streams to a table, with the points."""

    def commit(self, *arguments: Any) -> None:
        """Commit the batch."""
        super().commit(*arguments)
        _here("before Spark's commit file")


class PlantedTopicWriter(StreamWriter):
    """Streams to a topic, with the points."""

    def commit(self, *arguments: Any) -> None:
        """Decide the batch."""
        super().commit(*arguments)
        _here("before Spark's commit file")


class PlantedSource(HeadraceSource):
    """`format("planted")`, both ways."""

    @classmethod
    def name(cls) -> str:
        """Return what `format` is given."""
        return "planted"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader with the points."""
        return PlantedReader(parse_options(self.options, streaming=True), schema, commits=False)

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        """Return the writer with the points."""
        return PlantedTopicWriter(parse_sink_options(self.options, streaming=True), schema)


class PlantedTable(HeadraceTable):
    """`format("planted-table")`."""

    @classmethod
    def name(cls) -> str:
        """Return what `format` is given."""
        return "planted-table"

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        """Return the writer with the points."""
        return PlantedTableWriter(self.options, schema, overwrite)
