"""Divides the rows of a task by the checks that they fail, and counts them.

Counts travel in the task's commit message, so only attempts that are committed count.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.spark.checks.check import FAILED
from headrace.spark.checks.written_columns import EXAMPLES_MAX, WrittenColumns
from headrace.spark.errors import SinkError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.spark.checks.options import RowChecks

_PARTITION, _OFFSET = "_partition", "_offset"
Place = tuple[int, int]
"""Partition and offset of a row's record."""


@dataclass
class Tally:
    """Counts of rows."""

    rows: int = 0
    """All rows, before the failed ones were dropped."""
    failed: dict[str, int] = field(default_factory=dict)
    """Failed rows by check."""
    examples: dict[str, list[Place]] = field(default_factory=dict)
    """The first failed rows by check, if rows have positions."""
    dropped: int = 0
    """Rows that are not written and not moved to the quarantine."""
    quarantined: int = 0
    """Rows whose records are moved to the quarantine."""
    keys: dict[str, list[bytes]] = field(default_factory=dict)
    """Keys of the written rows by check of uniqueness: see `WrittenColumns`."""
    newest: dict[str, int] = field(default_factory=dict)
    """Largest value by column of a check of freshness, in microseconds since 1970."""

    def add(self, other: Tally) -> None:
        """Add the counts of another task."""
        self.rows += other.rows
        self.dropped += other.dropped
        self.quarantined += other.quarantined
        for name, keys in other.keys.items():
            self.keys.setdefault(name, []).extend(keys)
        for name, newest in other.newest.items():
            self.newest[name] = max(newest, self.newest.get(name, newest))
        for name, count in other.failed.items():
            self.failed[name] = self.failed.get(name, 0) + count
        for name, places in other.examples.items():
            both = sorted([*self.examples.get(name, ()), *places])
            self.examples[name] = both[:EXAMPLES_MAX]


class Division:
    """The division of one task's rows."""

    def __init__(self, checks: RowChecks) -> None:
        self._dropping = pa.array(sorted(checks.dropping), pa.string())
        self._moving = checks.moving
        self._written = WrittenColumns(checks.unique, checks.fresh)
        self.tally = Tally()
        self.moved: dict[int, dict[int, str]] = {}
        """Partition → offset → the first check by which a row goes to the quarantine."""

    def divided(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows to write, without the column of failed checks."""
        for batch in batches:
            self.tally.rows += len(batch)
            failed = batch.column(FAILED)
            rows = batch.drop_columns([FAILED])
            if pc.any(pc.greater(pc.list_value_length(failed), 0)).as_py():
                rows = self._without_dropped(rows, failed)
            self._written.add(rows)
            yield rows
        self.tally.keys, self.tally.newest = self._written.keys(), self._written.newest

    def _without_dropped(self, rows: pa.RecordBatch, failed: pa.Array) -> pa.RecordBatch:
        names = pc.list_flatten(failed).cast(pa.string())
        parents = pc.list_parent_indices(failed)
        tally = Tally()
        for name in pc.unique(names).to_pylist():
            numbers = parents.filter(pc.equal(names, name))
            tally.failed[name] = len(numbers)
            tally.examples[name] = _places(rows, numbers[:EXAMPLES_MAX])
        away = np.zeros(len(rows), np.bool_)
        away[parents.filter(pc.is_in(names, self._dropping)).to_numpy()] = True
        tally.quarantined = self._move(rows, names, parents)
        tally.dropped = int(away.sum()) - tally.quarantined
        if away.any():
            rows = rows.filter(pa.array(~away))
        self.tally.add(tally)
        return rows

    def _move(self, rows: pa.RecordBatch, names: pa.Array, parents: pa.Array) -> int:
        """Note rows that go to the quarantine; return how many. SinkError without a position."""
        moved: dict[int, str] = {}
        for name in reversed(self._moving):
            moved |= dict.fromkeys(parents.filter(pc.equal(names, name)).to_pylist(), name)
        numbers = sorted(moved)
        places = _places(rows, pa.array(numbers, parents.type))
        if len(places) < len(numbers):
            raise SinkError(
                f"check {moved[numbers[0]]!r}: a row without {_PARTITION} and {_OFFSET} cannot be"
                " moved to the quarantine"
            )
        for number, (partition, offset) in zip(numbers, places, strict=True):
            self.moved.setdefault(partition, {}).setdefault(offset, moved[number])
        return len(numbers)


def _places(rows: pa.RecordBatch, numbers: pa.Array) -> list[Place]:
    if _PARTITION not in rows.schema.names or _OFFSET not in rows.schema.names:
        return []
    partitions, offsets = (rows.column(name).take(numbers) for name in (_PARTITION, _OFFSET))
    places: list[Any] = list(zip(partitions.to_pylist(), offsets.to_pylist(), strict=True))
    return [place for place in places if None not in place]
