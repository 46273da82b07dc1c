"""The order of a key's changes: the newest of several rows, in Arrow and as a condition in SQL.

Values compare as in Spark: null is lower than any value, NaN is higher than any number, and 0.0
equals -0.0. Of two rows with equal values the one that arrives later is the newer.

Offsets of different partitions do not compare. So where rows have the source's `offset` as their
order and its `partition`, offsets order the changes within a partition, and the records'
timestamps those of different partitions: a key moves when partitions are added to the topic.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

ARRIVAL = "_headrace_arrival"
"""A column of the rows' arrival numbers; a negative one is a change of an earlier batch."""
_OFFSET, _PARTITION, _TIMESTAMP = "offset", "partition", "timestamp"
_PLACES = ("topic", _PARTITION)
_ORDERED = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_string,
            pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary,
            pa.types.is_boolean, pa.types.is_date, pa.types.is_timestamp)  # fmt: skip


@dataclass(frozen=True)
class ChangeOrder:
    """The columns that order the changes of a key."""

    column: str
    place: tuple[str, ...] = ()
    """Columns within whose equal values `column` compares; empty: it compares between all rows."""
    time: str | None = None
    """Timestamp column that orders changes of different places; None: the later arrival wins."""

    @property
    def columns(self) -> list[str]:
        """Names of all columns, each once."""
        return list(dict.fromkeys((self.column, *self.place, *filter(None, (self.time,)))))


def order_of(column: str, schema: pa.Schema) -> ChangeOrder:
    """Return the order of changes by this column of the rows."""
    if column != _OFFSET or not _is_integer(schema, _PARTITION):
        return ChangeOrder(column)
    has_time = _TIMESTAMP in schema.names and pa.types.is_timestamp(schema.field(_TIMESTAMP).type)
    place = tuple(name for name in _PLACES if name in schema.names)
    return ChangeOrder(column, place, _TIMESTAMP if has_time else None)


def has_order(kind: pa.DataType) -> bool:
    """Return whether values of this type have an order."""
    return any(accepts(kind) for accepts in _ORDERED)


def with_equal_keys(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return the rows with one representation of equal key values: 0.0 for -0.0, one NaN."""
    for key in keys:
        column = rows.column(key)
        if pa.types.is_floating(column.type):
            rows = rows.set_column(rows.schema.get_field_index(key), key, _canonical(column))
    return rows


def newest_of_each_key(rows: pa.Table, keys: Sequence[str], order: ChangeOrder) -> pa.Table:
    """Return the newest row of each key. Rows have the column ARRIVAL and keys equal by bytes."""
    if not order.place:
        return _last(rows, keys, order.column)
    of_places = _last(rows, [*dict.fromkeys((*keys, *order.place))], order.column)
    return _last(of_places, keys, order.time)


def newer_condition(order: ChangeOrder, rows: pa.Schema, table: pa.Schema) -> str:
    """Return the SQL condition that the row `came` is not older than the table's row `held`.

    A column of the rows that the table lacks counts as null in the table.
    """
    within = _not_lower(order.column, rows, table)
    if not order.place:
        return within
    same = " AND ".join(
        f"(came.`{name}` IS NOT DISTINCT FROM held.`{name}`)" if name in table.names else "FALSE"
        for name in order.place
    )
    between = "TRUE" if order.time is None else _not_lower(order.time, rows, table)
    return f"(CASE WHEN {same} THEN {within} ELSE {between} END)"


def _not_lower(column: str, rows: pa.Schema, table: pa.Schema) -> str:
    came, held = f"came.`{column}`", f"held.`{column}`"
    if column not in table.names:
        return "TRUE"
    if pa.types.is_floating(rows.field(column).type):
        # DataFusion orders -0.0 below 0.0, unless 0.0 is added.
        numbers = f"NOT isnan({held}) AND {came} + 0.0 >= {held} + 0.0"
        return f"({held} IS NULL OR coalesce(isnan({came}) OR ({numbers}), FALSE))"
    return f"({held} IS NULL OR coalesce({came} >= {held}, FALSE))"


def _last(rows: pa.Table, group: Sequence[str], by: str | None) -> pa.Table:
    columns = {f"group{number}": rows.column(name) for number, name in enumerate(group)}
    sort = []
    if by is not None:
        # Arrow places NaN and nulls after the numbers, in this order; nulls must come first.
        columns["valid"] = rows.column(by).is_valid()
        columns["value"] = rows.column(by)
        sort = ["valid", "value"]
    columns[ARRIVAL] = rows.column(ARRIVAL)
    columns["row"] = pa.array(range(rows.num_rows), pa.int64())
    ordered = pa.table(columns).sort_by([(name, "ascending") for name in (*sort, ARRIVAL)])
    groups = [name for name in columns if name.startswith("group")]
    last = ordered.group_by(groups, use_threads=False).aggregate([("row", "last")])
    return rows.take(last.column("row_last"))


def _canonical(column: pa.ChunkedArray) -> pa.ChunkedArray:
    zero, nan = (pa.scalar(value, column.type) for value in (0.0, float("nan")))
    return pc.if_else(pc.is_nan(column), nan, pc.add(column, zero))


def _is_integer(schema: pa.Schema, name: str) -> bool:
    return name in schema.names and pa.types.is_integer(schema.field(name).type)
