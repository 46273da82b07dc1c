"""Upserts into Delta: the last row of each key in a batch replaces or deletes the table's row.

Tasks write files that are not added to the table: the driver reads them and merges their rows, in
one version that holds the marker. A batch must fit into the driver's memory: bound it by
maxOffsetsPerTrigger or maxBytesPerTrigger. The sweep after the commit deletes the files.
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


def last_of_each_key(rows: pa.Table, upsert: Upsert) -> pa.Table:
    """Return each key's row with the highest `order`, and whether it deletes.

    TableError for rows with a null key: null never matches in SQL, so they would accumulate.
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
