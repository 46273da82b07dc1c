"""Iceberg tables of our sink, read and written to by Spark with Iceberg's jar."""

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.spark.tables.files import WrittenFile
from tests.outside.spark_tables.shared_cases import Cases
from tests.outside.spark_tables.written import SCHEMA, Row, listed, moved_by, refused, rows, same
from tests.support.spark.tables import Run, iceberg_table, read, write

if TYPE_CHECKING:
    from pyiceberg.table import Table as IcebergTable

_WEEK_SECONDS = 7 * 24 * 3600
_ITEM = pa.struct([("title", pa.string()), ("more", pa.int32())])


class IcebergCases(Cases):
    """The cases; one warehouse for all, `directory`/table."""

    def run(self, name: str, **options: Any) -> Run:
        table = f"sales.{name}"
        return Run(self.directory, "iceberg", checkpoint=f"check-{name}", table=table, **options)

    def named(self, run: Run) -> str:
        return f"headrace.{run.options['table']}"

    def partitions(self) -> None:
        """Columns and hidden days; values of any letters; merged."""
        run = self.run("partitions", partitionBy="region,day(timestamp)", mergeEvery=3)
        parts = [rows(first, 30) for first in range(0, 90, 30)]
        for batch, part in enumerate(parts):
            write(run, batch, part)
        written = listed(parts)
        self.regions(run, written)
        day = [row for row in written if row["timestamp"].day == 2]
        self.holds(run, day, "where timestamp >= '1970-01-02' and timestamp < '1970-01-03'")
        counts = "select sum(record_count), count(*) from {}.partitions"
        assert self.sql(run, counts) == [[90, 12]]
        assert self.sql(run, "select count(*) from {}.files") == [[12]]

    def merges(self) -> None:
        """Small files merged; older snapshots and streams that read across merges."""
        run, stream = self.run("merges", mergeEvery=3), self.directory / "iceberg-stream"
        parts = [rows(first, 10) for first in range(0, 70, 10)]
        snapshots = []
        for batch, part in enumerate(parts):
            write(run, batch, part)
            snapshots.append(self.table(run).metadata.current_snapshot_id)
            if batch in (1, 4, 6):
                found = self.vendors.stream("iceberg", self.named(run), stream)
                assert found == list(range(10 * (batch + 1))), found
        self.holds(run, listed(parts))
        assert self.sql(run, "select count(*) from {}.files") == [[2]]
        for batch in (0, 2, 3):
            self.holds(run, listed(parts[: batch + 1]), f"version as of {snapshots[batch]}")
        operations = self.sql(run, "select operation, count(*) from {}.snapshots group by 1")
        assert sorted(operations) == [["append", 7], ["replace", 2]], operations

    def overwrites(self) -> None:
        """What was is in the snapshot before."""
        run, first, second = self.run("overwrites"), rows(0, 20), rows(20, 20)
        write(run, 0, first)
        snapshot = self.table(run).metadata.current_snapshot_id
        write(run, 1, second, overwrite=True)
        self.holds(run, listed([second]))
        self.holds(run, listed([first]), f"version as of {snapshot}")

    def in_between(self) -> None:
        """Spark appends, deletes and maintains between batches, each of which is once."""
        run = self.run("between", partitionBy="day(timestamp)", mergeEvery=3)
        parts = [rows(first, 20) for first in range(0, 140, 20)]
        written: list[Row] = []
        for batch, part in enumerate(parts):
            run.plan(batch, batch)
            prepared = run.tasks(batch, part)
            match batch:
                case 1:
                    self.sql(run, f"insert into {{0}} select {moved_by(1000)} from {{0}}")
                    written += [{**row, "offset": row["offset"] + 1000} for row in written]
                case 2:
                    self.call(run, "rewrite_data_files", "options => map('rewrite-all', 'true')")
                case 3:
                    self.sql(run, "delete from {} where offset < 10")
                    written = [row for row in written if row["offset"] >= 10]
                case 4:
                    self.call(run, "rewrite_manifests")
                    self.sql(run, "update {} set nothing = 'some' where offset = 15")
                    next(row for row in written if row["offset"] == 15)["nothing"] = "some"
                case 5:
                    self.call(run, "expire_snapshots", "older_than => now()", "retain_last => 1")
                case 6:
                    self.orphans(run, prepared.files)
            assert prepared.commit()
            assert not write(run, batch, part)
            written += listed([part])
            self.holds(run, written)
        found = read(run.path, "iceberg", run.options["table"]).column("offset").to_pylist()
        assert sorted(found) == sorted(row["offset"] for row in written)

    def altered(self) -> None:
        """Columns that Spark renames and adds: what was written before is merged with what is."""
        run, first = self.run("altered", mergeEvery=2), rows(0, 20)
        write(run, 0, first)
        for change in (
            "rename column text to words", "rename column item.name to title",
            "add column item.more int", "drop column nothing", "add column nothing string",
        ):  # fmt: skip
            self.sql(run, f"alter table {{}} {change}")
        written = [_altered(row) for row in listed([first, rows(20, 20)])]
        kinds = {field.name: field.type for field in SCHEMA} | {"words": pa.string(), "item": _ITEM}
        schema = pa.schema([(name, kinds[name]) for name in written[0]])
        write(run, 1, pa.RecordBatch.from_pylist(written[20:], schema))
        assert self.sql(run, "select count(*) from {}.files") == [[1]]
        columns = ", ".join(f"`{name}`" for name in schema.names)
        same(self.sql(run, f"select {columns} from {{}}"), written, schema.names)

    def versions(self) -> None:
        """Rows that Spark deletes by files of deletes stay away; the third format is refused."""
        run, parts = self.run("versions", mergeEvery=2), [rows(first, 20) for first in (0, 20, 40)]
        write(run, 0, parts[0])
        self.sql(run, "alter table {} set tblproperties ('write.delete.mode' = 'merge-on-read')")
        self.sql(run, "delete from {} where offset = 3")
        for batch in (1, 2):
            write(run, batch, parts[batch])
        written = [row for row in listed(parts) if row["offset"] != 3]
        self.holds(run, written)
        self.sql(run, "alter table {} set tblproperties ('format-version' = '3')")
        refused(run, rows(60, 20), "format-version 3")
        self.holds(run, written)

    def table(self, run: Run) -> "IcebergTable":
        return iceberg_table(run.path, run.options["table"])

    def call(self, run: Run, procedure: str, *arguments: str) -> list[list[Any]]:
        """One of Iceberg's procedures."""
        given = ", ".join([f"table => '{run.options['table']}'", *arguments])
        return self.vendors.sql(f"call headrace.system.{procedure}({given})")

    def orphans(self, run: Run, fresh: Iterable[WrittenFile]) -> None:
        """All is a week old but a batch that is being written: one lost file is found, no other."""
        location = Path(self.table(run).location().removeprefix("file://"))
        lost = location / "data" / "lost.parquet"
        lost.touch()
        keep, week_ago = {location / file.path for file in fresh}, time.time() - _WEEK_SECONDS
        for path in location.rglob("*"):
            if path.is_file() and path not in keep:
                os.utime(path, (week_ago, week_ago))
        found = self.call(run, "remove_orphan_files")
        assert [path.rpartition("/")[2] for [path] in found] == [lost.name], found

    def by_name(self) -> dict[str, Callable[[], None]]:
        return {
            "Iceberg: every type, found by statistics": self.types,
            "Iceberg: partitions of any letters and hidden days": self.partitions,
            "Iceberg: merged, older snapshots, a stream across": self.merges,
            "Iceberg: overwritten": self.overwrites,
            "Iceberg: Spark writes and maintains in between": self.in_between,
            "Iceberg: files of deletes kept, the third format refused": self.versions,
            "Iceberg: Spark renames and adds columns": self.altered,
        }


def _altered(row: Row) -> Row:
    """A row of the table as it is now: nothing that was written is lost."""
    item = row["item"] and {"title": row["item"]["name"], "more": None}
    kept = {name: value for name, value in row.items() if name not in ("text", "item")}
    return {**kept, "words": row["text"], "item": item}
