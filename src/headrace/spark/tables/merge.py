"""Small files into large ones: which are taken together, and their rows written anew."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.spark.tables.attempts import Attempt
from headrace.spark.tables.files import FileWriter, Layout, WrittenFile

File = TypeVar("File")


def groups_to_merge(
    groups: Iterable[Sequence[File]], size_of: Callable[[File], int], bytes_max: int
) -> list[Sequence[File]]:
    """Return groups of two files and more, those of most files first, until they have the bytes.

    The last one may go beyond the bound.
    """
    chosen: list[Sequence[File]] = []
    size = 0
    for group in sorted(groups, key=len, reverse=True):
        if len(group) > 1 and size < bytes_max:
            chosen.append(group)
            size += sum(map(size_of, group))
    return chosen


def rewrite(layout: Layout, attempt: Attempt, paths: Sequence[str]) -> Sequence[WrittenFile]:
    """Write the rows of files of one partition as few new ones, sorted as the layout says."""
    batches = (rows for path in paths for rows in _rows(layout.location / path, layout.schema))
    return FileWriter(layout, attempt).write_all(batches)


def _rows(path: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield a file's rows; columns that the table got since it was written are null."""
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches():
            columns = [
                batch.column(field.name).cast(field.type)
                if field.name in batch.schema.names
                else pa.nulls(batch.num_rows, field.type)
                for field in schema
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
