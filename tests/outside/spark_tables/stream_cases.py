"""Topics streamed into tables by a Spark session of ours, with the other Spark in between."""

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import headrace.spark
from headrace.record.batch import Record
from tests.outside.spark_tables.vendors import Vendors
from tests.outside.spark_tables.written import SOURCE, Row, same
from tests.spark.kit import TIME_MS, Topics
from tests.spark.long import QUICK_JAVA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = 30
_ALL = "options => map('rewrite-all', 'true')"
_TIME = datetime.fromtimestamp(TIME_MS // 1000, UTC)
_HEADERS = [{"key": "h", "value": b"\x00\xff"}, {"key": "none", "value": None}]


class StreamCases:
    """The cases, of one broker and one session."""

    def __init__(self, vendors: Vendors, directory: Path, bootstrap: str) -> None:
        self.vendors, self.directory, self.bootstrap = vendors, directory, bootstrap
        self.topics = Topics(bootstrap)

    def close(self) -> None:
        self.topics.close()
        self._spark.stop()

    @cached_property
    def _spark(self) -> "SparkSession":
        os.environ.update(QUICK_JAVA)
        return headrace.spark.session("tables", **{"spark.master": "local[2]"})

    def goes_on(self, kind: str) -> None:
        """Two runs of a query, Spark's commit file of the first lost, and another Spark between."""
        topic = self.topics.create(name=f"stream_{kind}")
        written: list[Row] = []
        named, path, options = self._table(topic, kind)
        for turn in range(4):
            offsets = range(turn * RECORDS, (turn + 1) * RECORDS)
            self.topics.append(topic, 0, [_record(offset) for offset in offsets])
            written += [_row(topic, offset) for offset in offsets]
            if turn == 1:
                self._between(topic, kind, named)
                del written[3]
            self._write(topic, path, tableFormat=kind, **options)
            found = self.vendors.sql(f"select {', '.join(SOURCE)} from {named}")
            same(found, written, SOURCE)

    def _table(self, topic: str, kind: str) -> tuple[str, Path, dict[str, str]]:
        """As SQL names it, its path, and more options."""
        if kind == "iceberg":
            table = f"sales.{topic}"
            return f"headrace.{table}", self.directory / "table", {"table": table}
        return f"delta.`{self.directory / topic}`", self.directory / topic, {}

    def _between(self, topic: str, kind: str, named: str) -> None:
        """Spark merges all files and deletes a row; that the first batch was done is forgotten."""
        procedure = f"headrace.system.rewrite_data_files(table => 'sales.{topic}', {_ALL})"
        self.vendors.sql(f"call {procedure}" if kind == "iceberg" else f"optimize {named}")
        self.vendors.sql(f"delete from {named} where offset = 3")
        commits = self.directory / f"check-{topic}" / "commits"
        for name in ("0", ".0.crc"):
            (commits / name).unlink(missing_ok=True)

    def _write(self, topic: str, path: Path, **options: Any) -> None:
        records = (
            self._spark.readStream.format("headrace")
            .option("kafka.bootstrap.servers", self.bootstrap)
            .options(subscribe=topic, startingOffsets="earliest", includeHeaders="true")
            .load()
        )
        query = (
            records.writeStream.format("headrace-table")
            .queryName(topic)
            .options(partitionBy="day(timestamp)", mergeEvery="2", **options)
            .option("checkpointLocation", str(self.directory / f"check-{topic}"))
            .trigger(availableNow=True)
            .start(str(path))
        )
        query.awaitTermination()

    def by_name(self) -> dict[str, Callable[[], None]]:
        return {
            f"{name}: a stream of ours goes on, Spark in between": partial(self.goes_on, kind)
            for name, kind in (("Delta", "delta"), ("Iceberg", "iceberg"))
        }


def _record(offset: int) -> Record:
    row = _row("", offset)
    headers = [(header["key"], header["value"]) for header in row["headers"] or ()]
    return Record(0, TIME_MS + offset, row["key"], row["value"], headers)


def _row(topic: str, offset: int) -> Row:
    return {
        "key": None if offset % 5 == 0 else b"k%d" % offset,
        "value": None if offset % 7 == 0 else b"\x00\xff%d" % offset,
        "topic": topic,
        "partition": 0,
        "offset": offset,
        "timestamp": _TIME + timedelta(milliseconds=offset),
        "timestampType": 0,
        "headers": _HEADERS[: offset % 3] or None,
    }
