"""The keys deleted from an upserted table, so that an older change does not bring one back.

    <table>/_headrace/deleted/<id>.keys     a Parquet file: keys, order columns, time of deletion

Readers of the table do not see the file: its name ends in `.keys`, and they skip directories that
begin with `_`. A commit that deletes keys writes a new file with all keys, and names it. Keys are
stored for the table's `deleteRetentionMs`.
"""

import logging
import os
import uuid
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.spark.durable import flush_directories
from headrace.spark.tables.attempts import OWN_DIRECTORY, Attempt
from headrace.spark.tables.errors import TableError

NO_FILE = 0
"""Id for a table without deleted keys."""
_log = logging.getLogger(__name__)
DELETED_MS = "_headrace_deleted_ms"
"""Column with the time of the deletion in milliseconds since the epoch."""


def path_of(number: int) -> str:
    """Return the path of a file with deleted keys, relative to the table's location."""
    return f"{OWN_DIRECTORY}/deleted/{number:016x}.keys"


def read_deleted_keys(location: Path, number: int, columns: pa.Schema, since_ms: int) -> pa.Table:
    """Return the keys deleted at or after `since_ms`; none if they have other columns than these.

    Other columns: `upsertBy` or `upsertOrder` was changed. FileNotFoundError if another commit has
    replaced the file; TableError if the file is damaged.
    """
    schema = columns.append(pa.field(DELETED_MS, pa.int64()))
    if number == NO_FILE:
        return schema.empty_table()
    path = location / path_of(number)
    try:
        stored = pq.read_table(pa.BufferReader(path.read_bytes()))
    except pa.ArrowInvalid as error:
        raise TableError(
            f"{path}: the deleted keys cannot be read ({error}): delete the file to continue "
            "without them; older changes may then bring back deleted keys"
        ) from error
    if not stored.schema.equals(schema):
        _log.warning(
            "%s: deleted keys have the columns %s: upsertBy or upsertOrder was changed, and older "
            "changes may bring back deleted keys",
            location,
            ", ".join(stored.column_names[:-1]),
        )
        return schema.empty_table()
    return stored.filter(pc.greater_equal(stored.column(DELETED_MS), since_ms))


def write_deleted_keys(location: Path, attempt: Attempt, keys: pa.Table, replaced: int) -> int:
    """Write the keys to a new file, flushed to disk with its directory; return its id.

    The new file and the replaced one are listed under the attempt: the sweep after the commit
    deletes the one that the table does not name.
    """
    number = uuid.uuid4().int >> 65 or 1
    path = location / path_of(number)
    for each in filter(None, (replaced, number)):
        attempt.register(path_of(each))
    path.parent.mkdir(exist_ok=True)
    with path.open("wb") as file:
        pq.write_table(keys, file, compression="zstd")
        file.flush()
        os.fsync(file.fileno())
    flush_directories(location, [path_of(number)])
    return number


def among(stored: pa.Table, rows: pa.Table, keys: Sequence[str]) -> pa.ChunkedArray:
    """Return whether each stored key may be among the rows' keys: columns compare separately."""
    found = pa.chunked_array([pa.repeat(True, stored.num_rows)])
    for key in keys:
        found = pc.and_(found, pc.is_in(stored.column(key), value_set=rows.column(key)))
    return found
