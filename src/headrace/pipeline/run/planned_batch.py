"""The batch that a query was running when it failed, from its checkpoint."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.model.errors import HeadraceError
from headrace.spark.source.offsets import Position

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from headrace.model.nouns import TopicPartition

_HEADER_LINES = 2
_RANGES_SHOWN = 3


@dataclass(frozen=True)
class PlannedRange:
    """Offsets of one partition in a batch, the end exclusive; begin None: of a first batch."""

    partition: TopicPartition
    begin: int | None
    end: int

    def __str__(self) -> str:
        if self.begin is None:
            return f"up to {self.partition}@{self.end - 1}"
        return f"{self.partition}@{self.begin}..{self.end - 1}"


@dataclass(frozen=True)
class UnfinishedBatch:
    """A batch that was planned and not finished."""

    number: int
    ranges: Sequence[PlannedRange]

    def __str__(self) -> str:
        shown = ", ".join(str(each) for each in self.ranges[:_RANGES_SHOWN])
        more = len(self.ranges) - _RANGES_SHOWN
        return f"batch {self.number}" + (
            f" ({shown}{f' and {more} more' if more > 0 else ''})" if shown else ""
        )


def unfinished(checkpoint: Path) -> UnfinishedBatch | None:
    """Return the newest planned batch if it is not finished; None without one."""
    try:
        planned, finished = (
            newest_batch(checkpoint / "offsets"),
            newest_batch(checkpoint / "commits"),
        )
        if planned is None or (finished is not None and finished >= planned):
            return None
        ends = positions_of(checkpoint, planned)
        begins = positions_of(checkpoint, planned - 1) if planned else {}
    except (OSError, ValueError, HeadraceError):
        return None
    ranges = [
        PlannedRange(partition, begins.get(partition), end)
        for partition, end in sorted(ends.items(), key=lambda item: item[0])
        if begins.get(partition) != end and end
    ]
    return UnfinishedBatch(planned, ranges)


def newest_batch(directory: Path) -> int | None:
    """Return the highest batch in a checkpoint's `offsets` or `commits`; None without one."""
    if not directory.is_dir():
        return None
    return max(
        (int(each.name) for each in directory.iterdir() if each.name.isdigit()), default=None
    )


def positions_of(checkpoint: Path, batch: int) -> dict[TopicPartition, int]:
    """Return the end offsets of a batch, of all its sources. OSError, ValueError, SourceError."""
    lines = (checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()
    found: dict[TopicPartition, int] = {}
    for line in lines[_HEADER_LINES:]:
        if "{" in line:  # After the source's name, if it has one.
            found |= Position.of_json(json.loads(line[line.index("{") :])).offsets
    return found
