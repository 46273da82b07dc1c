"""Upserts into Delta: the newest change of each key replaces or deletes the table's row.

Tasks write files that are not added to the table: the driver reads them and merges their rows, in
one version that holds the marker. A batch must fit into the driver's memory: bound it by
maxOffsetsPerTrigger or maxBytesPerTrigger. The sweep after the commit deletes the files.

A change that is older than the table's row, or than the deletion of its key, is not applied,
whichever batch it arrives in: rows keep their order column, and deleted keys are stored beside the
table (`deleted_keys.py`).
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable

from headrace.spark.errors import OptionError
from headrace.spark.tables.errors import TableError
from headrace.spark.tables.options import Upsert
from headrace.spark.tables.upserts.deleted_keys import DELETED_MS, among
from headrace.spark.tables.upserts.order import (
    ARRIVAL,
    ChangeOrder,
    has_order,
    newer_condition,
    newest_of_each_key,
    order_of,
    with_equal_keys,
)

_DELETED = "_headrace_deleted"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Changes:
    """A batch's changes, the newest of each key."""

    rows: pa.Table
    """Rows to merge, with a column that tells whether the row deletes its key."""
    keys: tuple[str, ...]
    order: ChangeOrder
    deleted: pa.Table | None
    """All deleted keys after the batch, to be stored; None: as they are stored."""


def check_upsert(upsert: Upsert, schema: pa.Schema) -> None:
    """Raise OptionError unless rows of this schema have the columns that the upsert needs."""
    for option, names in (
        ("upsertBy", upsert.keys),
        ("upsertOrder", (upsert.order,)),
        ("deleteWhen", (upsert.delete_when,)),
    ):
        for name in names:
            if name not in schema.names:
                columns = ", ".join(schema.names)
                raise OptionError(f"{option}: there is no column {name!r} in {columns}")
    kind = schema.field(upsert.order).type
    if not has_order(kind):
        raise OptionError(
            f"upsertOrder: {upsert.order} is {kind}; order by a number, string, binary, boolean, "
            "date or timestamp column"
        )


def deleted_columns(upsert: Upsert, schema: pa.Schema) -> pa.Schema:
    """Return the columns of a deleted key: its key columns and those that order changes."""
    names = dict.fromkeys((*upsert.keys, *order_of(upsert.order, schema).columns))
    return pa.schema([pa.field(name, schema.field(name).type) for name in names])


def read_batch(location: Path, paths: Sequence[str], schema: pa.Schema) -> pa.Table:
    """Return the rows of a batch's files."""
    return pa.concat_tables(pq.read_table(location / path, schema=schema) for path in paths)


def changes_of(rows: pa.Table, upsert: Upsert, deleted: pa.Table, now_ms: int) -> Changes:
    """Return the newest change of each key in the batch that no deletion in `deleted` is newer
    than.

    TableError for rows with a null key: null never matches in SQL, so they would accumulate.
    """
    for key in upsert.keys:
        if nulls := rows.column(key).null_count:
            raise TableError(
                f"upsertBy: {nulls} rows of the batch have no {key}; filter them out, or write "
                "them to a table of their own"
            )
    schema, order = rows.schema, order_of(upsert.order, rows.schema)
    came = with_equal_keys(rows, upsert.keys).append_column(ARRIVAL, _numbers(0, rows.num_rows))
    may_concern = among(deleted, came, upsert.keys)
    before = deleted.filter(may_concern)
    before = before.append_column(ARRIVAL, _numbers(-before.num_rows, 0))
    every = pa.concat_tables([came, before], promote_options="default")
    newest = newest_of_each_key(every, upsert.keys, order)
    is_new = pc.greater_equal(newest.column(ARRIVAL), 0)
    chosen = newest.filter(is_new).sort_by(ARRIVAL)
    deciding = chosen.column(upsert.delete_when)
    is_flag = pa.types.is_boolean(deciding.type)
    deletes = pc.fill_null(deciding, False) if is_flag else pc.is_null(deciding)
    stored = None
    if pc.any(deletes).as_py():
        added = chosen.filter(deletes).drop_columns([DELETED_MS])
        added = added.append_column(DELETED_MS, pa.repeat(now_ms, added.num_rows))
        kept = [deleted.filter(pc.invert(may_concern)), newest.filter(pc.invert(is_new)), added]
        stored = pa.concat_tables(
            part.select(deleted.column_names).cast(deleted.schema) for part in kept
        )
    rows = chosen.select(schema.names).append_column(_DELETED, deletes)
    return Changes(rows, upsert.keys, order, stored)


def merge_changes(table: DeltaTable, changes: Changes, properties: CommitProperties) -> None:
    """Merge the changes into the table, as one version with these properties."""
    before = table.version()
    if changes.rows.num_rows:
        _merge(table, changes, properties)
    if table.version() == before:
        # deltalake commits no merge that changes nothing, but the properties must be stored.
        partitions = table.metadata().partition_columns
        table.create_write_transaction(
            [], "append", table.schema(), partitions, commit_properties=properties
        )


def _merge(table: DeltaTable, changes: Changes, properties: CommitProperties) -> None:
    rows = changes.rows
    names = [name for name in rows.column_names if name != _DELETED]
    values = {f"`{name}`": f"came.`{name}`" for name in names}
    held = pa.schema(table.schema().to_arrow())
    newer = newer_condition(changes.order, rows.schema, held)
    counts = (
        table.merge(
            rows,
            " AND ".join(f"held.`{key}` = came.`{key}`" for key in changes.keys),
            source_alias="came",
            target_alias="held",
            merge_schema=not set(names) <= set(held.names),
            commit_properties=properties,
        )
        .when_matched_delete(f"came.{_DELETED} AND {newer}")
        .when_matched_update(values, predicate=f"NOT came.{_DELETED} AND {newer}")
        .when_not_matched_insert(values, predicate=f"NOT came.{_DELETED}")
        .execute()
    )
    replacing = rows.num_rows - pc.sum(rows.column(_DELETED)).as_py()
    applied = counts["num_target_rows_inserted"] + counts["num_target_rows_updated"]
    if applied < replacing:
        _log.warning(
            "%s: %d changes are older by %s than the table's rows of their keys: not applied",
            table.table_uri,
            replacing - applied,
            changes.order.column,
        )


def _numbers(first: int, end: int) -> pa.Array:
    return pa.array(range(first, end), pa.int64())
