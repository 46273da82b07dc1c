"""A check on rows: a name, a condition and the action on rows that fail it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

FAILED = "_failed"
"""The column with the names of the checks that a row fails; the writer removes it."""


class Outcome(Enum):
    """The action on rows that fail a check."""

    KEEP = "keep"
    DROP = "drop"
    FAIL = "fail"
    QUARANTINE = "quarantine"


@dataclass(frozen=True)
class Check:
    """A condition on the rows of a flow. A row passes only if the condition is true, not null."""

    name: str
    condition: str
    """A boolean expression in SQL."""
    outcome: Outcome
    at_least: float = 1.0
    """Share of a batch's rows that must pass; below it, KEEP warns and FAIL ends the run."""


@dataclass(frozen=True)
class Unique:
    """Columns whose values no two rows of a batch share; a row with a null equals no other."""

    columns: tuple[str, ...]

    @property
    def name(self) -> str:
        """The check's name in texts and counts."""
        return f"unique {', '.join(self.columns)}"


@dataclass(frozen=True)
class Fresh:
    """A time whose newest value is at most `within` old."""

    column: str
    within: str
    """Such as "15 minutes"."""

    @property
    def name(self) -> str:
        """The check's name in texts and events."""
        return f"fresh {self.column}"
