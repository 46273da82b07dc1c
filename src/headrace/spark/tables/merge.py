"""Merging of small files: which files are merged, and how their rows are rewritten."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.spark.durable import flush_directories
from headrace.spark.tables.attempts import Attempt
from headrace.spark.tables.columns import is_list
from headrace.spark.tables.files import FileWriter, Layout, WrittenFile

File = TypeVar("File")
_FIELD_ID = b"PARQUET:field_id"


def groups_to_merge(
    groups: Iterable[Sequence[File]], size_of: Callable[[File], int], bytes_max: int
) -> list[Sequence[File]]:
    """Return groups of at least two files, most files first, until they have `bytes_max` bytes.

    The last group may exceed the bound.
    """
    chosen: list[Sequence[File]] = []
    size = 0
    for group in sorted(groups, key=len, reverse=True):
        if len(group) > 1 and size < bytes_max:
            chosen.append(group)
            size += sum(map(size_of, group))
    return chosen


def rewrite(layout: Layout, attempt: Attempt, paths: Sequence[str]) -> Sequence[WrittenFile]:
    """Rewrite the rows of one partition's files to few files, sorted as the layout says.

    They are on disk with their directories, so a commit may name them.
    """
    batches = (
        rows for path in paths for rows in rows_of_file(layout.location / path, layout.schema)
    )
    written = FileWriter(layout, attempt).write_all(batches)
    flush_directories(layout.location, [file.path for file in written])
    return written


def rows_of_file(path: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield a file's rows in the table's schema; columns that the file lacks are null."""
    with pq.ParquetFile(path) as file:
        sources = [_source(field, list(file.schema_arrow)) for field in schema]
        for batch in file.iter_batches():
            columns = [
                pa.nulls(batch.num_rows, field.type)
                if source is None
                else batch.column(source.place).view(source.type).cast(field.type)
                for field, source in zip(schema, sources, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


class _Source(NamedTuple):
    """The position and type of a table's column in a file."""

    place: int
    type: pa.DataType
    """The file's type, with nested fields named as in the table now."""


def _source(field: pa.Field, there: Sequence[pa.Field]) -> _Source | None:
    place = _place_of(field, there)
    return None if place is None else _Source(place, _named_as(there[place].type, field.type))


def _place_of(field: pa.Field, among: Sequence[pa.Field]) -> int | None:
    """Return the index of this field, by Iceberg's field ids if present, as names may have
    changed."""
    ids = [_id_of(each) for each in among]
    if _id_of(field) is None or not any(ids):
        names = [each.name for each in among]
        return names.index(field.name) if field.name in names else None
    return ids.index(_id_of(field)) if _id_of(field) in ids else None


def _named_as(kind: pa.DataType, table: pa.DataType) -> pa.DataType:
    """Return a file's type with the table's field names, by which Arrow casts nested fields."""
    if pa.types.is_struct(kind) and pa.types.is_struct(table):
        names = {_place_of(each, list(kind)): each for each in table}
        return pa.struct([
            child.with_name(names[place].name).with_type(_named_as(child.type, names[place].type))
            if place in names
            else child.with_name(f"_headrace_dropped_{place}")
            for place, child in enumerate(kind)
        ])  # fmt: skip
    if is_list(kind) and is_list(table):
        item = kind.value_field.with_type(_named_as(kind.value_type, table.value_type))
        return pa.large_list(item) if pa.types.is_large_list(kind) else pa.list_(item)
    if pa.types.is_map(kind) and pa.types.is_map(table):
        return pa.map_(
            _named_as(kind.key_type, table.key_type), _named_as(kind.item_type, table.item_type)
        )
    return kind


def _id_of(field: pa.Field) -> bytes | None:
    return (field.metadata or {}).get(_FIELD_ID)
