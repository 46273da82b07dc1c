"""The result of a query: rows for people, JSON lines or CSV, in chunks."""

import io
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv

from headrace.arrow.sql.sql_columns import text

BATCH_ROWS = 8192
_NUMBERS = frozenset({
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT",
    "HUGEINT", "UHUGEINT", "FLOAT", "DOUBLE",
})  # fmt: skip
"""Types that Python formats as DuckDB does."""
_FLOATS = frozenset({"FLOAT", "DOUBLE"})
_SMALL_NUMBERS = _NUMBERS - {"HUGEINT", "UHUGEINT"}


class Answer:
    """The rows of a query, computed as they are read, once. Errors are those of
    `TopicSql.answer`."""

    def __init__(
        self,
        relation: Any,  # noqa: ANN401 - duckdb has no types
        error: Callable[[duckdb.Error], BaseException],
    ) -> None:
        """Create the answer of a query.

        `relation`: DuckDB's relation; None for a statement without a result.
        """
        self._relation = relation
        self._error = error
        names = [] if relation is None else relation.columns
        self.columns: list[str] = _distinct(names)
        """Names of the columns, without duplicates."""
        self._types = [] if relation is None else [str(type_) for type_ in relation.types]

    def rows(self, most: int) -> tuple[list[list[str | int | float | None]], bool]:
        """Return up to `most` rows as shown to people, and whether there are more."""
        shown = (
            at if type_ in _SMALL_NUMBERS else f"CAST({at} AS VARCHAR)"
            for at, type_ in self._places()
        )
        rows: list[list[str | int | float | None]] = []
        for batch in self._batches(", ".join(shown)):
            rows += [list(row.values()) for row in batch.to_pylist()]
            if len(rows) > most:
                return rows[:most], True
        return rows, False

    def json_lines(self) -> Iterator[bytes]:
        """Yield lines of JSON, an object for each row. Bytes are base64; NaN and infinity are
        null."""
        parts = []
        for name, (at, type_) in zip(self.columns, self._places(), strict=True):
            if type_ == "BLOB":
                at = f"base64({at})"
            elif type_ in _FLOATS:
                at = f"CASE WHEN isfinite({at}) THEN {at} END"
            parts += [text(name), at]
        for batch in self._batches(f"json_object({', '.join(parts)})::VARCHAR AS line"):
            yield b"".join(line.encode() + b"\n" for line in batch.column(0).to_pylist())

    def csv(self) -> Iterator[bytes]:
        """Yield CSV with a header line (RFC 4180); null is empty, an empty string is ""."""
        parts = [
            at if type_ in _SMALL_NUMBERS
            else f"base64({at})" if type_ == "BLOB" else f"CAST({at} AS VARCHAR)"
            for at, type_ in self._places()
        ]  # fmt: skip
        if not parts:
            return
        out, writer = io.BytesIO(), None
        for batch in self._batches(", ".join(parts), empty=True):
            named = batch.rename_columns(self.columns)
            if writer is None:
                writer = pa.csv.CSVWriter(out, named.schema)
            writer.write_batch(named)
            yield _taken(out)

    def _places(self) -> list[tuple[str, str]]:
        return [(f"c{at}", type_) for at, type_ in enumerate(self._types)]

    def _batches(self, columns: str, *, empty: bool = False) -> Iterator[pa.RecordBatch]:
        """Run the query and yield these columns, which refer to its own as c0, c1 and so on.

        `empty`: first yield a batch without rows, for its schema.
        """
        if self._relation is None:
            return
        names = ", ".join(at for at, _ in self._places())
        try:
            relation = self._relation.query(
                "answer",
                f"SELECT {columns} FROM answer AS answer({names})",  # noqa: S608 - our own names
            )
            # The method's name in current versions, and in DuckDB 1.
            begin = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
            reader = begin(BATCH_ROWS)
            if empty:
                yield pa.RecordBatch.from_pylist([], schema=reader.schema)
            yield from reader
        except duckdb.Error as error:
            raise self._error(error) from None
        except (OSError, pa.ArrowException) as error:
            # Errors within the stream arrive through Arrow.
            raise self._error(duckdb.Error(str(error))) from None


def _distinct(names: list[str]) -> list[str]:
    found: list[str] = []
    for name in names:
        number, chosen = 0, name
        while chosen in found:
            number += 1
            chosen = f"{name}_{number}"
        found.append(chosen)
    return found


def _taken(out: io.BytesIO) -> bytes:
    data = out.getvalue()
    out.seek(0)
    out.truncate()
    return data


def one_line(error: duckdb.Error) -> str:
    """Return DuckDB's error text on one line, without its excerpt of the query."""
    words = str(error).split("\n\nLINE ", 1)[0].split("\n\n", 1)[0]
    line = " ".join(words.split())
    return line.removeprefix("Invalid Input Error: ").rstrip(".")
