"""The result of comparing two versions of a table."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from headrace.model.errors import HeadraceError

POSITION = ("_partition", "_offset")
"""The columns of a record's position, which identify a row unless a key is declared."""


class DiffError(HeadraceError):
    """Two tables cannot be compared as requested; the text says why."""


@dataclass(frozen=True)
class ChangedValue:
    """A value that differs in two rows with the same key. Values are text; None is null."""

    key: tuple[str | None, ...]
    before: str | None
    after: str | None


@dataclass(frozen=True)
class ColumnDiff:
    """The differences of one column, in rows that both versions have."""

    name: str
    changed: int
    """Number of rows in which it differs."""
    delta_max: float | None
    """Largest absolute difference of two finite numbers; None: no number, or no such pair."""
    examples: tuple[ChangedValue, ...]
    """Those with the lowest keys."""


@dataclass(frozen=True)
class ColumnTypes:
    """A column that only one version has, or whose type differs. Its values are not compared."""

    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class TableDiff:
    """The differences between two versions of a table, called before and after."""

    key: tuple[str, ...]
    """Columns that identify a row; empty: rows are compared as a multiset, and a changed row is
    one that is gone and one that is added."""
    rows_before: int
    rows_after: int
    added: int
    gone: int
    changed: int
    columns: tuple[ColumnDiff, ...]
    """All compared columns in the table's order, without the key; empty without a key."""
    types: tuple[ColumnTypes, ...] = ()
    added_examples: tuple[tuple[str | None, ...], ...] = ()
    gone_examples: tuple[tuple[str | None, ...], ...] = ()
    partitions: int = 0
    """Number of partitions with rows."""
    partitions_equal: int = 0

    @property
    def same(self) -> int:
        """Number of rows that both versions have."""
        return self.rows_before - self.gone - self.changed

    @property
    def differs(self) -> bool:
        """Whether a row or the type of a column differs."""
        return bool(self.added or self.gone or self.changed or self.types)

    def to_json(self) -> dict[str, Any]:
        """Return the result for `--json`."""
        return {**asdict(self), "same": self.same, "differs": self.differs}

    @classmethod
    def of_json(cls, given: dict[str, Any]) -> TableDiff:
        """Decode the output of `to_json` after JSON; KeyError or TypeError if it is invalid."""
        fields = {name: given[name] for name in cls.__dataclass_fields__}
        return cls(
            **{
                **fields,
                "key": tuple(fields["key"]),
                "columns": tuple(
                    ColumnDiff(
                        **{
                            **column,
                            "examples": tuple(
                                ChangedValue(**{**example, "key": tuple(example["key"])})
                                for example in column["examples"]
                            ),
                        }
                    )
                    for column in fields["columns"]
                ),
                "types": tuple(ColumnTypes(**each) for each in fields["types"]),
                "added_examples": tuple(map(tuple, fields["added_examples"])),
                "gone_examples": tuple(map(tuple, fields["gone_examples"])),
            }
        )
