"""Tables written as Spark has them written, without Spark: tasks, then the driver's commit."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import finalize

import pyarrow as pa

from headrace.spark.tables.attempts import Attempt
from headrace.spark.tables.files import FileWriter
from headrace.spark.tables.marker import Marker, marker_of_batch
from headrace.spark.tables.new_columns import digest_of_columns
from headrace.spark.tables.options import parse_table_options
from headrace.spark.tables.sink import table_of
from headrace.spark.tables.table import Table, commit, open_table

if TYPE_CHECKING:
    from pyiceberg.table import Table as IcebergTable

FORMATS = ("parquet", "delta", "iceberg")
DAY_US = 86_400_000_000
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
    ]
)


def rows(first: int, count: int, *, days: int = 1) -> pa.RecordBatch:
    """Rows of these offsets, over so many days in turn."""
    offsets = range(first, first + count)
    return pa.record_batch(
        [
            [f"k{offset % 7}".encode() for offset in offsets],
            [str(offset).encode() for offset in offsets],
            pa.array([0] * count, pa.int32()),
            list(offsets),
            pa.array([offset % days * DAY_US + offset for offset in offsets], SCHEMA[4].type),
        ],
        schema=SCHEMA,
    )


class Run:
    """One run of a streaming query: a checkpoint, and batches of rows from offset to offset."""

    def __init__(self, directory: Path, kind: str, checkpoint: str = "check", **more: Any) -> None:
        self.path = directory / "table"
        self.checkpoint = directory / checkpoint
        self.options = {
            "tableFormat": kind,
            "path": str(self.path),
            "checkpointLocation": str(self.checkpoint),
            "pipeline": "orders",
            **({"table": "sales.orders"} if kind == "iceberg" else {}),
            **{name: str(value) for name, value in more.items()},
        }

    @property
    def table(self) -> Table:
        return table_of(parse_table_options(self.options, streaming=True))

    def plan(self, batch: int, end: int) -> None:
        """What Spark writes before a batch; a batch that is planned already stays as it is."""
        offsets = self.checkpoint / "offsets"
        offsets.mkdir(parents=True, exist_ok=True)
        (self.checkpoint / "metadata").write_text(json.dumps({"id": self.checkpoint.name}))
        if not (offsets / str(batch)).exists():
            (offsets / str(batch)).write_text(f'v1\n{{"batchTimestampMs":{end}}}\n{{"end":{end}}}')

    def done(self, batch: int) -> None:
        """What Spark writes after a batch."""
        (self.checkpoint / "commits").mkdir(parents=True, exist_ok=True)
        (self.checkpoint / "commits" / str(batch)).write_text("v1\n{}")

    def tasks(self, batch: int, *parts: pa.RecordBatch) -> "Prepared":
        """What tasks do, one for each part."""
        table = self.table
        schema = parts[0].schema if parts else SCHEMA
        layout = open_table(table, schema)
        prepared = Prepared(self, batch, digest_of_columns(schema.names))
        for part in parts:
            attempt = Attempt(layout.location, "orders", batch)
            prepared.files += FileWriter(layout, attempt).write_all([part])
            prepared.attempts.append(attempt.name)
        return prepared

    def batch(self, number: int, first: int, count: int, **more: Any) -> bool:
        """Plan, write and commit a batch of two tasks; whether the table did not hold it."""
        self.plan(number, first + count)
        half = count // 2
        parts = [rows(first, half, **more), rows(first + half, count - half, **more)]
        return self.tasks(number, *parts).commit()


class Prepared:
    """Files that tasks wrote and nobody committed."""

    def __init__(self, run: Run, batch: int, columns: int) -> None:
        self.run, self.batch, self.columns = run, batch, columns
        self.files: list[Any] = []
        self.attempts: list[str] = []

    @property
    def marker(self) -> Marker:
        pipeline = self.run.options["pipeline"]
        return marker_of_batch(pipeline, self.run.checkpoint, self.batch, self.columns)

    def commit(self, table: Table | None = None, *, overwrite: bool = False) -> bool:
        table = table or self.run.table
        return commit(table, self.files, self.attempts, self.marker, overwrite=overwrite)


def write(run: Run, batch: int, *parts: pa.RecordBatch, overwrite: bool = False) -> bool:
    """Plan a batch and commit it, a task for each part; whether the table did not hold it."""
    run.plan(batch, batch)
    return run.tasks(batch, *parts).commit(overwrite=overwrite)


def held(run: Run) -> set[str]:
    """The files of the table as it is now."""
    table = run.table
    table.reload()
    return set(table.held())


def read(path: Path, kind: str, table: str = "sales.orders") -> pa.Table:
    """The whole table, by its own library. `table`: of Iceberg's catalog."""
    if kind == "delta":
        from deltalake import DeltaTable

        return pa.table(DeltaTable(str(path)).to_pyarrow_table())
    if kind == "iceberg":
        return iceberg_table(path, table).scan().to_arrow()
    import pyarrow.dataset as ds

    return ds.dataset(path, format="parquet", partitioning="hive").to_table()


def iceberg_table(path: Path, table: str = "sales.orders") -> "IcebergTable":
    """A table of our own catalog, as another program opens it."""
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("headrace", type="sql", uri=f"sqlite:///{path}/catalog.db")
    finalize(catalog, catalog.engine.dispose)  # type: ignore[attr-defined]
    return catalog.load_table(table)


def offsets(path: Path, kind: str) -> list[int]:
    """The offsets in the table, sorted; each once where nothing is doubled."""
    return sorted(read(path, kind).column("offset").to_pylist())


def parquet_files(path: Path) -> set[str]:
    """All Parquet files below a directory, whosoever they are."""
    return {str(file.relative_to(path)) for file in path.rglob("*.parquet")}


def fill(filler: Path, leave: int) -> None:
    """Write until the disk takes no more, then give some back."""
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
        file.truncate(max(file.tell() - leave, 0))
