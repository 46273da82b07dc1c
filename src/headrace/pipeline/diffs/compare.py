"""Compare two versions of a table: DuckDB over Arrow, with bounded memory.

1. For each partition the number of rows and the sum of their hashes modulo 2**64 are compared;
   partitions that are equal are not read again.
2. The rows of the others are joined on the key. Without a key, equal rows of both versions cancel.

Only equality is decided here. As in Spark's grouping, NaN equals NaN, and 0.0 equals -0.0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from headrace.arrow.sql.bounded_duckdb import BoundedDuckDb
from headrace.arrow.sql.sql_answer import one_line
from headrace.pipeline.diffs.key_join import (
    comparison_query,
    duplicates_query,
    is_number,
    read_comparison,
)
from headrace.pipeline.diffs.table_diff import (
    POSITION,
    ColumnDiff,
    ColumnTypes,
    DiffError,
    TableDiff,
)
from headrace.spark.tables.columns import nullable_inside

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headrace.spark.tables.delta_parts.snapshot import Snapshot

_MODULUS = 1 << 64
_PARTITION = "_p"
"""Column with the number of the row's partition."""


@dataclass(frozen=True)
class DiffSettings:
    """Settings of a comparison: the key, tolerances and ignored columns."""

    on: tuple[str, ...] = ()
    """Columns that identify a row; empty: one of `keys`."""
    keys: tuple[tuple[str, ...], ...] = (POSITION,)
    """Keys to try: the first whose columns exist and that is unique in both versions."""
    tolerances: Mapping[str, float] = field(default_factory=dict)
    """By column: numbers are equal if they differ by at most this."""
    ignore: frozenset[str] = frozenset()
    """Columns that are not compared."""


def compare(before: Snapshot, after: Snapshot, settings: DiffSettings | None = None) -> TableDiff:
    """Return the differences. DiffError for invalid settings, TableError for a lost file."""
    comparison = _Comparison(before, after, settings or DiffSettings())
    try:
        with BoundedDuckDb() as bounded:
            return comparison.run(bounded)
    except duckdb.Error as error:
        if comparison.failure is not None:
            raise comparison.failure from error
        raise DiffError(f"the versions cannot be compared: {one_line(error)}") from error


class _Comparison:
    """A comparison of two versions. Columns are named c0, c1, … in SQL."""

    def __init__(self, before: Snapshot, after: Snapshot, settings: DiffSettings) -> None:
        self._before, self._after, self._settings = before, after, settings
        self.failure: BaseException | None = None
        """The error of reading a file, which DuckDB reports without its type."""
        self._types = tuple(_types(before.columns, after.columns))
        different = {each.name for each in self._types}
        self._names = [
            name
            for name in before.columns.names
            if name not in different and name not in settings.ignore
        ]
        self._check()
        keys = [*before.partitions(), *after.partitions()]
        self._partitions = {key: number for number, key in enumerate(dict.fromkeys(keys))}

    def _check(self) -> None:
        settings, known = self._settings, {*self._before.columns.names, *self._after.columns.names}
        for option, names in (
            ("on", settings.on),
            ("tolerance", settings.tolerances),
            ("ignore", settings.ignore),
        ):
            for name in names:
                if name not in known:
                    there = ", ".join(sorted(known))
                    raise DiffError(f"{option}: there is no column {name} in {there}")
        for name in (*settings.on, *settings.tolerances):
            if name not in self._names:
                raise DiffError(f"{name} is not compared: it is ignored, or its types differ")
        for name in settings.tolerances:
            kind = self._before.columns.field(name).type
            if not is_number(kind):
                raise DiffError(f"tolerance: {name} is {kind}, not a number")
        if not self._names:
            raise DiffError("no column is left to compare")

    def run(self, duck: BoundedDuckDb) -> TableDiff:
        """Compare all rows."""
        sums = [self._sums(duck, side) for side in (self._before, self._after)]
        differing = {
            key
            for key, number in self._partitions.items()
            if sums[0].get(number) != sums[1].get(number)
        }
        filled = {*sums[0], *sums[1]}
        rows = [sum(count for count, _ in side.values()) for side in sums]
        sides = self._before.of(differing), self._after.of(differing)
        key = self._key(duck, *sides)
        found: dict[str, Any] = {"added": 0, "gone": 0, "changed": 0}
        if differing:
            found |= self._differences(duck, key, *sides)
        return TableDiff(
            key=key,
            rows_before=rows[0],
            rows_after=rows[1],
            types=self._types,
            partitions=len(filled),
            partitions_equal=sum(sums[0].get(each) == sums[1].get(each) for each in filled),
            **{"columns": self._equal_columns(key), **found},
        )

    def _equal_columns(self, key: tuple[str, ...]) -> tuple[ColumnDiff, ...]:
        compared = [name for name in self._names if key and name not in key]
        return tuple(ColumnDiff(name, 0, None, ()) for name in compared)

    def _sums(self, duck: BoundedDuckDb, side: Snapshot) -> dict[int, tuple[int, int]]:
        """Return by partition the number of rows and the sum of their hashes."""
        columns = ", ".join(f"c{place}" for place in range(len(self._names)))
        self._register(duck, rows=side)
        query = (
            f"SELECT {_PARTITION}, count(*), sum(hash({columns})) % {_MODULUS} FROM rows"  # noqa: S608 - numbered names
            f" GROUP BY {_PARTITION}"
        )
        return {
            int(number): (int(count), int(total))
            for number, count, total in duck.connection.execute(query).fetchall()
        }

    def _key(self, duck: BoundedDuckDb, before: Snapshot, after: Snapshot) -> tuple[str, ...]:
        """Return the columns that identify a row; () if rows have none."""
        wanted = self._settings.on
        for key in (wanted,) if wanted else self._settings.keys:
            if not set(key) <= set(self._names):
                continue
            places = [self._names.index(name) for name in key]
            twice: list[tuple[str, ...]] = []
            for side in (before, after):
                self._register(duck, rows=side)
                twice += duck.connection.execute(duplicates_query(places)).fetchall()
            if not twice:
                return key
            if wanted:
                value = ", ".join(
                    f"{name}={text}" for name, text in zip(key, twice[0], strict=True)
                )
                raise DiffError(
                    f"on: {', '.join(key)} does not identify a row: several rows have {value}"
                )
        return ()

    def _differences(
        self,
        duck: BoundedDuckDb,
        key: tuple[str, ...],
        before: Snapshot,
        after: Snapshot,
    ) -> dict[str, Any]:
        self._register(duck, before=before, after=after)
        if not key:
            if self._settings.tolerances:
                raise DiffError("tolerance: needs a key; name its columns with --on")
            columns = ", ".join(f"c{place}" for place in range(len(self._names)))
            query = (
                "SELECT coalesce(sum(n) FILTER (n > 0), 0), coalesce(-sum(n) FILTER (n < 0), 0)"  # noqa: S608
                f" FROM (SELECT sum(n) AS n FROM (SELECT {columns}, 1 AS n FROM after UNION ALL"
                f" SELECT {columns}, -1 FROM before) GROUP BY {columns})"
            )
            added, gone = duck.connection.execute(query).fetchall()[0]
            return {"added": int(added), "gone": int(gone)}
        schema = pa.schema([self._before.columns.field(name) for name in self._names])
        query = comparison_query(schema, key, self._settings.tolerances)
        return read_comparison(schema, key, duck.connection.sql(query).to_arrow_table())

    def _register(self, duck: BoundedDuckDb, **sides: Snapshot) -> None:
        """Make the rows of snapshots readable as tables, once."""
        for name, side in sides.items():
            schema = pa.schema([
                pa.field(_PARTITION, pa.int32()),
                *(
                    pa.field(f"c{place}", side.columns.field(column).type)
                    for place, column in enumerate(self._names)
                ),
            ])  # fmt: skip
            batches = self._batches(side, schema)
            duck.connection.register(name, pa.RecordBatchReader.from_batches(schema, batches))

    def _batches(self, side: Snapshot, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        try:
            for key, rows in side.batches():
                number = pa.array([self._partitions[key]] * rows.num_rows, pa.int32())
                arrays = [number, *(rows.column(name) for name in self._names)]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        except BaseException as error:
            self.failure = error
            raise


def _types(before: pa.Schema, after: pa.Schema) -> Iterator[ColumnTypes]:
    """Yield columns that only one version has, or that have another type."""
    for name in dict.fromkeys([*before.names, *after.names]):
        kinds = [side.field(name).type if name in side.names else None for side in (before, after)]
        if None in kinds or nullable_inside(kinds[0]) != nullable_inside(kinds[1]):
            yield ColumnTypes(name, *(None if kind is None else str(kind) for kind in kinds))
