"""The record of a replay: what it computed, which files it replaces, and how far it is."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import date, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any

from headrace.model.errors import HeadraceError
from headrace.pipeline.diffs.table_diff import TableDiff
from headrace.spark.tables.delta_parts.partition_range import PartitionRange

if TYPE_CHECKING:
    from collections.abc import Mapping

Offsets = dict[str, dict[str, tuple[int, int]]]
"""Topic → partition → first offset and end offset."""


class ReplayError(HeadraceError):
    """A replay cannot do what was requested in its state; the text says what to do."""


class UnknownReplayError(HeadraceError):
    """There is no replay of this id."""


class UnknownTableFlowError(HeadraceError):
    """There is no flow of this name to a table."""


class ReplayRangeError(HeadraceError):
    """The days of a replay are invalid, or the live flow has still to write rows of them."""


class ReplayFailedError(HeadraceError):
    """The flow could not be computed; the replay was discarded."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code
        """The exit code of a run that fails so."""


class OutdatedDiffError(HeadraceError):
    """The table is no longer the one that the replay was compared with."""

    def __init__(self, text: str, diff: TableDiff | None = None) -> None:
        super().__init__(text)
        self.diff = diff
        """The new comparison; None: the replay must be computed again."""


class ReplayState(Enum):
    """The state of a replay."""

    BUILDING = "building"
    BUILT = "built"
    DIFFED = "diffed"
    APPLYING = "applying"
    APPLIED = "applied"
    UNDOING = "undoing"
    UNDONE = "undone"
    DISCARDED = "discarded"


@dataclass(frozen=True)
class Replay:
    """A replay of one flow. It is stored before each step and after it."""

    id: str
    """Name within the storage, such as r3; its table is `<table>@<id>`."""
    flow: str
    table: str
    state: ReplayState
    range: PartitionRange | None
    """Partitions that are replaced; None: the whole table."""
    version: int
    """Version of the table whose files are replaced."""
    removed: frozenset[str]
    """Paths of the files that are replaced."""
    number: int
    """Version of the application transaction of its commit; that of its undo is one higher."""
    keys: tuple[tuple[str, ...], ...] = ()
    """Keys to compare rows by, the first that fits."""
    offsets: Offsets = field(default_factory=dict)
    """Offsets that were read."""
    diff: TableDiff | None = None
    applied_version: int | None = None
    applied_ms: int | None = None
    undone_version: int | None = None

    @property
    def application(self) -> str:
        """The application of the transaction that marks its commits in the table."""
        return f"headrace:replay:{self.id}"

    def was_applied_at(self, version: int) -> bool:
        """Return whether a version of the table has this replay's files."""
        if self.applied_version is None or self.applied_version > version:
            return False
        if self.undone_version is not None:
            return self.undone_version > version
        # Records of an older release do not have the version of an undo.
        return self.state in (ReplayState.APPLIED, ReplayState.UNDOING)

    @property
    def days(self) -> str:
        """The replaced days as a text, or "the whole table"."""
        if self.range is None:
            return "the whole table"
        first = date.fromisoformat(self.range.first)
        last = date.fromisoformat(self.range.end) - timedelta(days=1)
        return f"day {first}" if first == last else f"days {first} to {last}"

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON types."""
        return {
            **asdict(self),
            "state": self.state.value,
            "removed": sorted(self.removed),
            "diff": None if self.diff is None else self.diff.to_json(),
        }

    @classmethod
    def of_json(cls, given: Mapping[str, Any]) -> Replay:
        """Decode the output of `to_json`; KeyError, TypeError or ValueError if it is invalid."""
        range_, diff = given["range"], given["diff"]
        return cls(
            **{
                **given,
                "state": ReplayState(given["state"]),
                "range": None if range_ is None else PartitionRange(**range_),
                "removed": frozenset(given["removed"]),
                "keys": tuple(map(tuple, given["keys"])),
                "offsets": {
                    topic: {number: (first, end) for number, (first, end) in partitions.items()}
                    for topic, partitions in given["offsets"].items()
                },
                "diff": None if diff is None else TableDiff.of_json(diff),
            }
        )
