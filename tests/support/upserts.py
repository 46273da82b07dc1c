"""Changes of keys for upserted tables, without Spark."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.support.spark.tables import Run, read

Change = tuple[Any, ...]


def changes(
    *rows: Change,
    key: pa.DataType = pa.string(),  # noqa: B008 - types are constants
    order: pa.DataType = pa.int64(),  # noqa: B008
) -> pa.RecordBatch:
    """Changes as (key, order, value); a value of None deletes."""
    columns = [pa.array([row[place] for row in rows], kind) for place, kind in
               enumerate((key, order, pa.string()))]  # fmt: skip
    return pa.record_batch(columns, names=["id", "version", "value"])


def records(*rows: Change) -> pa.RecordBatch:
    """Records as (key, partition, offset, timestamp in seconds, value)."""
    kinds = (pa.string(), pa.int32(), pa.int64(), pa.timestamp("us", "UTC"), pa.string())
    names = ["id", "partition", "offset", "timestamp", "value"]
    values = [[row[place] for row in rows] for place in range(5)]
    values[3] = [seconds * 1_000_000 for seconds in values[3]]
    return pa.record_batch(
        [pa.array(each, kind) for each, kind in zip(values, kinds, strict=True)], names=names
    )


def upserts(place: Path, **more: Any) -> Run:
    return Run(place, "delta", **{"upsertBy": "id", "upsertOrder": "version", **more})


def rows_of(run: Run, *columns: str) -> list[Change]:
    found = read(run.path, "delta").select([*columns] or ["id", "version", "value"])
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=str)
