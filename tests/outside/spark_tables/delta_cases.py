"""Delta tables of our sink, read and written to by Spark with Delta's jars."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from tests.outside.spark_tables.shared_cases import Cases, empty_as_null
from tests.outside.spark_tables.written import Row, listed, moved_by, refused, rows
from tests.support.spark.tables import Run, offsets, write


class DeltaCases(Cases):
    """The cases; each has a directory."""

    def run(self, name: str, **options: Any) -> Run:
        (self.directory / name).mkdir(parents=True)
        return Run(self.directory / name, "delta", **options)

    def named(self, run: Run) -> str:
        return f"delta.`{run.path}`"

    def partitions(self) -> None:
        """Columns and days; values of any letters; merged."""
        run = self.run("partitions", partitionBy="region,day(timestamp)", mergeEvery=3)
        parts = [rows(first, 30) for first in range(0, 90, 30)]
        for batch, part in enumerate(parts):
            write(run, batch, part)
        written = empty_as_null(listed(parts))
        self.regions(run, written)
        days = self.sql(run, "select timestamp_day, count(*) from {} group by 1 order by 1")
        assert days == [[f"1970-01-0{day}", 30] for day in (1, 2, 3)], days
        assert len(DeltaTable(str(run.path)).file_uris()) == 9

    def merges(self) -> None:
        """Small files merged; older versions and streams that read across merges."""
        run, stream = self.run("merges", mergeEvery=3), self.directory / "delta-stream"
        parts = [rows(first, 10) for first in range(0, 70, 10)]
        versions = []
        for batch, part in enumerate(parts):
            write(run, batch, part)
            versions.append(DeltaTable(str(run.path)).version())
            if batch in (1, 4, 6):
                read = self.vendors.stream("delta", str(run.path), stream)
                assert read == list(range(10 * (batch + 1))), read
        self.holds(run, listed(parts))
        assert len(DeltaTable(str(run.path)).file_uris()) == 2
        for batch in (0, 2, 3):
            self.holds(run, listed(parts[: batch + 1]), f"version as of {versions[batch]}")
        history = [row[4] for row in self.sql(run, "describe history {}")]
        assert sorted(history) == ["CREATE TABLE", *["OPTIMIZE"] * 2, *["WRITE"] * 7], history

    def upserts(self) -> None:
        """The last row of each key; tombstones delete."""
        run = self.run("upserts", upsertBy="partition,region", mergeEvery=2)
        last: dict[tuple[int, str], Row] = {}
        for batch, first in enumerate(range(0, 80, 20)):
            part = rows(first, 20)
            part = part.filter(part.column("region").is_valid())
            write(run, batch, part)
            last |= {(row["partition"], row["region"]): row for row in part.to_pylist()}
        assert any(row["value"] is None for row in last.values())
        self.holds(run, [row for row in last.values() if row["value"] is not None])

    def overwrites(self) -> None:
        """What was is in the version before."""
        run, first, second = self.run("overwrites"), rows(0, 20), rows(20, 20)
        write(run, 0, first)
        version = DeltaTable(str(run.path)).version()
        write(run, 1, second, overwrite=True)
        self.holds(run, listed([second]))
        self.holds(run, listed([first]), f"version as of {version}")

    def in_between(self) -> None:
        """Spark appends, deletes, optimizes and vacuums between batches, each of which is once."""
        run = self.run("between", partitionBy="day(timestamp)", mergeEvery=3)
        parts = [rows(first, 20) for first in range(0, 120, 20)]
        written: list[Row] = []
        for batch, part in enumerate(parts):
            run.plan(batch, batch)
            prepared = run.tasks(batch, part)
            match batch:
                case 1:
                    moved = f"{moved_by(1000)}, timestamp_day"
                    self.sql(run, f"insert into {{0}} select {moved} from {{0}}")
                    written += [{**row, "offset": row["offset"] + 1000} for row in written]
                case 2:
                    self.sql(run, "optimize {}")
                case 3:
                    self.sql(run, "delete from {} where offset < 10")
                    written = [row for row in written if row["offset"] >= 10]
                case 4:
                    self.sql(run, "vacuum {}")
                    self.sql(run, "update {} set nothing = 'some' where offset = 15")
                    next(row for row in written if row["offset"] == 15)["nothing"] = "some"
            assert prepared.commit()
            assert not write(run, batch, part)
            written += listed([part])
            self.holds(run, written)
        assert offsets(run.path, "delta") == sorted(row["offset"] for row in written)

    def checkpoints(self) -> None:
        """The log's checkpoints of either are read by the other, also when entries have expired."""
        run = self.run("checkpoints")
        write(run, 0, rows(0, 10))
        self.sql(run, "alter table {} set tblproperties ('delta.checkpointInterval' = '4')")
        parts = [rows(first, 10) for first in range(0, 90, 10)]
        for batch, part in enumerate(parts[1:8], 1):
            write(run, batch, part)
        assert _expire(run.path) >= 4
        self.holds(run, listed(parts[:8]))
        for _ in range(4):
            self.sql(run, "delete from {} where offset = 79")
            self.sql(run, f"insert into {{0}} select {moved_by(1)} from {{0}} where offset = 78")
        assert _expire(run.path) >= 12
        assert not write(run, 7, parts[7])
        write(run, 8, parts[8])
        self.holds(
            run, [*listed(parts)[:79], {**listed(parts)[78], "offset": 79}, *listed(parts)[80:]]
        )

    def features(self) -> None:
        """What Spark turns on is kept, or the next batch is refused by its name."""
        run, parts = self.run("kept", mergeEvery=2), [rows(first, 20) for first in (0, 20, 40)]
        write(run, 0, parts[0])
        kept = "'delta.enableDeletionVectors' = 'true', 'delta.checkpointPolicy' = 'v2'"
        self.sql(run, f"alter table {{}} set tblproperties ({kept})")
        self.sql(run, "delete from {} where offset = 3")
        for batch in (1, 2):
            write(run, batch, parts[batch])
        self.holds(run, [row for row in listed(parts) if row["offset"] != 3])
        for statement, why in (
            ("set tblproperties ('delta.columnMapping.mode' = 'name')", "delta.columnMapping.mode"),
            ("set tblproperties ('delta.enableRowTracking' = 'true')", "RowTracking"),
            ("set tblproperties ('delta.enableTypeWidening' = 'true')", "TypeWidening"),
            ("set tblproperties ('delta.enableInCommitTimestamps' = 'true')", "InCommitTimestamp"),
            ("add constraint some check (offset >= 0)", "delta.constraints.some"),
        ):
            run = self.run(f"refused {why}")
            write(run, 0, parts[0])
            self.sql(run, f"alter table {{}} {statement}")
            refused(run, parts[1], why)
            self.holds(run, listed(parts[:1]))

    def by_name(self) -> dict[str, Callable[[], None]]:
        return {
            "Delta: every type, found by statistics": self.types,
            "Delta: partitions of any letters and days": self.partitions,
            "Delta: merged, older versions, a stream across": self.merges,
            "Delta: upserts and deletes by key": self.upserts,
            "Delta: overwritten": self.overwrites,
            "Delta: Spark writes and optimizes in between": self.in_between,
            "Delta: checkpoints of either": self.checkpoints,
            "Delta: features kept, or refused by name": self.features,
        }


def _expire(table: Path) -> int:
    """Delete the log's entries below its last checkpoint, as cleaning does a month later."""
    log = table / "_delta_log"
    last = max(int(file.name.split(".")[0]) for file in log.glob("*.checkpoint.parquet"))
    for entry in log.glob("*.json"):
        if int(entry.stem) <= last:
            entry.unlink()
    return last
