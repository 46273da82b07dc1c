"""Manifest entries of Iceberg: a file's partition, counts and column bounds."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import (
    PyArrowFileIO,
    parquet_file_to_data_file,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.metadata import TableMetadata

from headrace.spark.errors import OptionError

_BEFORE_SURROGATES = "\ud7ff"
"""The last character before the surrogates: pyiceberg increments a character to truncate an upper
bound, which would give a surrogate."""


def data_file(table: IcebergTable, metadata: TableMetadata, path: str) -> DataFile:
    """Return a file's manifest entry: partition, counts, and column bounds."""
    uri = f"{table.location()}/{path}"
    schema = metadata.schema()
    ids = parquet_path_to_id_mapping(schema)
    footer = pq.read_metadata(path_of(uri))
    modes = {
        f"write.metadata.metrics.column.{schema.find_column_name(ids[name])}": mode
        for name, mode in _unbounded(footer)
    }
    if modes:
        metadata = metadata.model_copy(update={"properties": {**metadata.properties, **modes}})
    return parquet_file_to_data_file(table.io, metadata, uri)


def _unbounded(footer: pq.FileMetaData) -> Iterator[tuple[str, str]]:
    """Yield the columns that must not get bounds, each with the metrics mode for pyiceberg.

    pyiceberg takes the bounds of those row groups that have some for the whole file's.
    """
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    for place in range(footer.num_columns):
        name = footer.schema.column(place).path
        known = [group.column(place).statistics for group in groups]
        if not all(known):
            yield name, "none"
        elif not all(_has_bounds(each) for each in known):
            yield name, "counts"


def _has_bounds(known: pq.Statistics) -> bool:
    """Return whether a row group's statistics have bounds that pyiceberg can use, or need none."""
    if not known.has_min_max:
        return not known.num_values
    try:
        greatest = known.max
        return known.min is not None and not (
            isinstance(greatest, str) and _BEFORE_SURROGATES in greatest
        )
    except OverflowError:  # Timestamps beyond the year 9999.
        return False


def path_of(uri: str) -> Path:
    """Return the local path of an Iceberg file URI, which is not escaped; Spark writes
    `file:/…`."""
    scheme, _, path = PyArrowFileIO.parse_location(uri)
    if scheme != "file":
        raise OptionError(
            f"the table's location: {uri!r} is not a directory: tables are written to local "
            "directories and to shared mounts that driver and workers see at the same path"
        )
    return Path(path)
