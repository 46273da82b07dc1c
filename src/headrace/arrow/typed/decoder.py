"""Decoders of values: an array of bytes becomes rows and refused values."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from headrace.model.errors import HeadraceError


class Refused(Protocol):
    """A refused value."""

    @property
    def row(self) -> int:
        """The number of its record in the input."""

    @property
    def path(self) -> str:
        """The path of the refused field; empty if the whole value is."""

    @property
    def words(self) -> str:
        """The reason."""


class Refusals(Protocol):
    """The refused values of an array."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Refused]: ...

    def numbers(self) -> np.ndarray[Any, Any]:
        """Return the records' numbers."""


@dataclass(frozen=True)
class TypedRows:
    """Decoded values, in the input's order."""

    batch: pa.RecordBatch
    rows: np.ndarray[Any, Any]
    """For each row of `batch`, the number of its record in the input."""
    refused: Refusals


class ValueDecoder(Protocol):
    """Decodes values. Records without a value give no row and are not refused."""

    @property
    def arrow_schema(self) -> pa.Schema:
        """The schema of the rows."""

    @property
    def unknown_names(self) -> Mapping[str, int]:
        """Undeclared keys by name, in all records so far; empty where values have no keys."""

    def decode(self, values: pa.Array) -> Iterator[TypedRows]:
        """Decode an array of type `binary`. WrongRowError for a fault of the decoder itself,
        FunctionFailedError for an error of a function that it calls."""


class FunctionFailedError(HeadraceError):
    """A function of the caller that decodes a value raised an error of its own."""

    def __init__(self, row: int, error: Exception) -> None:
        super().__init__(str(error))
        self.row = row
        """The number of the record in the input."""
        self.error = error


class WrongRowError(HeadraceError):
    """A decoder returned what is no row, which is no fault of the value."""

    def __init__(self, row: int, words: str) -> None:
        super().__init__(words)
        self.row = row
        """The number of its record in the input."""
