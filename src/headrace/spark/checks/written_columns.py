"""Columns of the rows that a task writes: keys that no two rows of a batch share, newest times.

A task's message has them, and the driver compares all tasks' keys before the batch is committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from headrace.spark.checks.check import Fresh, Unique

EXAMPLES_MAX = 3
"""Examples that are kept for each check."""
_PLACE = ("_partition", "_offset")
_CODEC = "lz4"


class WrittenColumns:
    """The keys and the newest times of one task's rows."""

    def __init__(self, unique: Sequence[Unique], fresh: Sequence[Fresh]) -> None:
        self._unique, self._fresh = unique, fresh
        self._rows: dict[str, list[pa.RecordBatch]] = {}
        self.newest: dict[str, int] = {}
        """Largest value by column, in microseconds since 1970."""

    def add(self, rows: pa.RecordBatch) -> None:
        """Take rows into account."""
        names = rows.schema.names
        place = _PLACE if set(_PLACE) <= set(names) else ()
        for check in self._unique:
            kept = rows.select(list(dict.fromkeys((*check.columns, *place))))
            self._rows.setdefault(check.name, []).append(kept)
        for fresh in self._fresh:
            newest = pc.max(rows.column(fresh.column)).value
            if newest is not None:
                self.newest[fresh.column] = max(newest, self.newest.get(fresh.column, newest))

    def keys(self) -> dict[str, list[bytes]]:
        """Return the keys by check, as streams of Arrow."""
        return {name: [_encoded(batches)] for name, batches in self._rows.items()}


class Duplicates(NamedTuple):
    """Rows of a batch that share their key with an earlier row."""

    rows: int
    """Their number, without the first row of each key."""
    examples: list[str]
    """The first keys: as positions of their rows, or as values if rows have no position."""


def duplicates_of(
    check: Unique, keys: Sequence[bytes], position: Callable[[tuple[int, int]], str]
) -> Duplicates | None:
    """Return the rows that share a key; None without any. A key with a null equals no other.

    `keys`: of all tasks. `position`: the text of a partition and an offset.
    """
    if not keys:
        return None
    rows = pa.concat_tables([pa.ipc.open_stream(each).read_all() for each in keys])
    for name in check.columns:
        rows = rows.filter(pc.is_valid(rows.column(name)))
    groups = rows.group_by(list(check.columns), use_threads=False).aggregate([([], "count_all")])
    count = rows.num_rows - groups.num_rows
    if not count:
        return None
    shared = groups.filter(pc.greater(groups.column("count_all"), 1)).slice(0, EXAMPLES_MAX)
    return Duplicates(count, list(_examples(check, rows, shared.to_pylist(), position)))


def _examples(
    check: Unique,
    rows: pa.Table,
    shared: list[dict[str, Any]],
    position: Callable[[tuple[int, int]], str],
) -> Iterator[str]:
    for group in shared:
        if not set(_PLACE) <= set(rows.column_names):
            yield ", ".join(f"{name}={group[name]}" for name in check.columns)
            continue
        same = rows
        for name in check.columns:
            key = pa.scalar(group[name], rows.schema.field(name).type)
            same = same.filter(pc.equal(same.column(name), key))
        places = zip(*(same.column(name).to_pylist() for name in _PLACE), strict=True)
        first, second = sorted(places)[:2]
        yield f"{position(first)} and {position(second)}"


def _encoded(batches: Sequence[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=_CODEC)
    with pa.ipc.new_stream(sink, batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())
