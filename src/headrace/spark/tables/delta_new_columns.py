"""The commit of a Delta batch that adds columns to the table.

deltalake adds columns to a table's schema only where it writes the files itself. So the rows of
the tasks' files are written once more, with one commit for schema, rows and marker.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import pyarrow as pa
from deltalake import (
    CommitProperties,
    DeltaTable,
    TableFeatures,
    WriterProperties,
    write_deltalake,
)

from headrace.spark.tables.files import WrittenFile
from headrace.spark.tables.merge import rows_of_file
from headrace.spark.tables.options import TableOptions

_LOCAL_TIMES = TableFeatures.TimestampWithoutTimezone
_Codec = Literal["UNCOMPRESSED", "SNAPPY", "GZIP", "LZ4_RAW", "ZSTD"]
_CODECS: dict[str, _Codec] = {
    "none": "UNCOMPRESSED",
    "snappy": "SNAPPY",
    "gzip": "GZIP",
    "lz4": "LZ4_RAW",
    "zstd": "ZSTD",
}
"""deltalake's names for the values of the option `compression`."""


def allow_new_columns(table: DeltaTable, new: Iterable[pa.Field]) -> None:
    """Add the table feature that timestamps without a time zone need, as a version of its own.

    A merge adds columns without it, and the table cannot be read then.
    """
    features = table.protocol().writer_features or ()
    if "timestampNtz" not in features and any(_has_local_time(field.type) for field in new):
        table.alter.add_feature(_LOCAL_TIMES, allow_protocol_versions_increase=True)


def _has_local_time(kind: pa.DataType) -> bool:
    if pa.types.is_timestamp(kind):
        return kind.tz is None
    return any(_has_local_time(kind.field(place).type) for place in range(kind.num_fields))


def append_with_new_columns(
    table: DeltaTable,
    options: TableOptions,
    files: Sequence[WrittenFile],
    columns: pa.Schema,
    properties: CommitProperties | None,
) -> None:
    """Append the files' rows as one version.

    `columns`: the table's columns without partition columns, then the new ones.
    """
    held = pa.schema(table.schema().to_arrow())
    partitions = [held.field(field.name) for field in options.partition_by]
    schema = pa.schema([*columns, *partitions])

    def batches() -> Iterator[pa.RecordBatch]:
        for file in files:
            for rows in rows_of_file(options.path / file.path, columns):
                keys = [
                    pa.array([text] * rows.num_rows, pa.string()).cast(field.type)
                    for text, field in zip(file.key, partitions, strict=True)
                ]
                yield pa.RecordBatch.from_arrays([*rows.columns, *keys], schema=schema)

    write_deltalake(
        table,
        pa.RecordBatchReader.from_batches(schema, batches()),
        partition_by=[field.name for field in options.partition_by] or None,
        mode="append",
        schema_mode="merge",
        target_file_size=options.file_bytes,
        writer_properties=WriterProperties(compression=_CODECS[options.compression]),
        commit_properties=properties,
    )
