"""Rows by key into Delta: the last row of each key in a batch replaces, or deletes, the table's.

The tasks' files are not added to the table: the driver reads them and merges, in one version that
carries the marker. A batch must fit the driver's memory; bound it with maxOffsetsPerTrigger or
maxBytesPerTrigger. The files are left to the sweep that follows each commit.
"""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable

from headrace.spark.errors import OptionError
from headrace.spark.tables.errors import TableError
from headrace.spark.tables.options import Upsert

_DELETED = "_headrace_deleted"
_PLACE = "_headrace_place"


def check_upsert(upsert: Upsert, schema: pa.Schema) -> None:
    """Raise OptionError unless rows of this schema can be merged so."""
    for option, names in (
        ("upsertBy", upsert.keys),
        ("upsertOrder", (upsert.order,)),
        ("deleteWhen", (upsert.delete_when,)),
    ):
        for name in names:
            if name not in schema.names:
                columns = ", ".join(schema.names)
                raise OptionError(f"{option}: there is no column {name!r} in {columns}")


def last_of_each_key(rows: pa.Table, upsert: Upsert) -> pa.Table:
    """Return the row with the highest `order` of each key, and whether it deletes.

    TableError for rows without a key: nothing in SQL matches null, they would pile up.
    """
    for key in upsert.keys:
        if nulls := rows.column(key).null_count:
            raise TableError(
                f"upsertBy: {nulls} rows of the batch have no {key}; filter them out, or write "
                "them to a table of their own"
            )
    places = pa.array(range(rows.num_rows), pa.int64())
    ordered = rows.append_column(_PLACE, places).sort_by([(upsert.order, "ascending")])
    last = ordered.group_by(list(upsert.keys), use_threads=False).aggregate([(_PLACE, "last")])
    chosen = rows.take(last.column(f"{_PLACE}_last"))
    deciding = chosen.column(upsert.delete_when)
    is_flag = pa.types.is_boolean(deciding.type)
    deleted = pc.fill_null(deciding, False) if is_flag else pc.is_null(deciding)
    return chosen.append_column(_DELETED, deleted)


def merge_rows(
    table: DeltaTable,
    location: Path,
    paths: Sequence[str],
    schema: pa.Schema,
    upsert: Upsert,
    properties: CommitProperties | None,
) -> None:
    """Merge the rows of these files into the table, as one version with these properties."""
    batch = pa.concat_tables(pq.read_table(location / path, schema=schema) for path in paths)
    rows = last_of_each_key(batch, upsert)
    matched = " and ".join(f"held.`{key}` = came.`{key}`" for key in upsert.keys)
    values = {f"`{name}`": f"came.`{name}`" for name in schema.names}
    (
        table.merge(
            rows,
            matched,
            source_alias="came",
            target_alias="held",
            commit_properties=properties,
        )
        .when_matched_delete(f"came.{_DELETED}")
        .when_matched_update(values)
        .when_not_matched_insert(values, predicate=f"not came.{_DELETED}")
        .execute()
    )
