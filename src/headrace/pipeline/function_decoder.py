"""The decoder of `hp.parser`: a Python function from a value to a tuple."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from headrace.arrow.typed.decoder import FunctionFailedError, TypedRows, WrongRowError
from headrace.pipeline.unreadable import Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_WRONG = (pa.ArrowException, TypeError, ValueError, OverflowError)


class _Unread(NamedTuple):
    """A refused value."""

    row: int
    """Number of its record in the input."""
    path: str
    """The column that is null and NOT NULL; empty if the function refuses the value."""
    words: str


class _AllUnread(list[_Unread]):
    """The refused values of an array."""

    def numbers(self) -> np.ndarray[Any, Any]:
        """Return the records' numbers."""
        return np.array([each.row for each in self], np.int64)


class FunctionDecoder:
    """Decodes values by a function from bytes to a tuple. Pickled to the tasks that read."""

    def __init__(
        self,
        function: Callable[[bytes], tuple[Any, ...]],
        arrow_schema: pa.Schema,
        required: Sequence[int],
    ) -> None:
        """`arrow_schema`: of the tuples; `required`: numbers of the columns that are NOT NULL."""
        self._function = function
        self.unknown_names: dict[str, int] = {}
        self.arrow_schema = arrow_schema
        self._required = required

    def decode(self, values: pa.Array) -> Iterator[TypedRows]:
        """Decode an array of type `binary`. WrongRowError if the function returns no row,
        FunctionFailedError if it raises another error than `Unreadable`, which refuses the value.
        """
        rows: list[tuple[Any, ...]] = []
        numbers: list[int] = []
        refused = _AllUnread()
        for number, value in enumerate(values.to_pylist()):
            if value is None:
                continue
            row = self._row(number, value)
            if isinstance(row, _Unread):
                refused.append(row)
            else:
                rows.append(row)
                numbers.append(number)
        columns: list[Any] = list(zip(*rows, strict=True)) if rows else [()] * self._width
        arrays = [
            self._column(cells, field, numbers)
            for cells, field in zip(columns, self.arrow_schema, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.arrow_schema)
        yield TypedRows(batch, np.array(numbers, np.int64), refused)

    @property
    def _width(self) -> int:
        return len(self.arrow_schema)

    def _row(self, number: int, value: bytes) -> tuple[Any, ...] | _Unread:
        try:
            row = tuple(self._function(value))
        except Unreadable as why:
            return _Unread(number, "", str(why))
        except Exception as error:
            raise FunctionFailedError(number, error) from error
        if len(row) != self._width:
            raise WrongRowError(
                number, f"the parser returned {len(row)} values for {self._width} columns"
            )
        for required in self._required:
            if row[required] is None:
                name = self.arrow_schema[required].name
                return _Unread(number, name, f"{name}: null, but NOT NULL")
        return row

    def _column(self, cells: tuple[Any, ...], field: pa.Field, numbers: list[int]) -> pa.Array:
        try:
            return pa.array(cells, field.type)
        except _WRONG as error:
            for number, cell in zip(numbers, cells, strict=True):
                try:
                    pa.array([cell], field.type)
                except _WRONG:
                    text = f"the parser returned {cell!r} for column {field.name}, which is no"
                    raise WrongRowError(number, f"{text} {field.type}") from None
            raise WrongRowError(numbers[0], f"column {field.name}: {error}") from error
