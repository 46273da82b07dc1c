"""The end of a live flow: the offsets up to which its table has all rows, and its watermark."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.pipeline.replays.replay import ReplayError
from headrace.spark.source.offsets import Position

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from headrace.spark.tables.marker import Marker


@dataclass(frozen=True)
class LiveEnd:
    """The last batch whose rows a version of the table has."""

    batch: int
    positions: tuple[Position, ...]
    """End of each of the query's sources."""
    watermark_ms: int | None
    """Watermark of the batch; None: the checkpoint does not have it."""
    stateful: bool
    """Whether the query keeps state, so that it writes windows when the watermark passes them."""

    def end_of(self, topic: str) -> Position:
        """Return the position with the end offsets of a topic. ReplayError if it is not clear."""
        found = [each for each in self.positions if _offsets_of(each, topic)]
        if not found:
            raise ReplayError(f"the flow has not read topic {topic} yet: let the pipeline run")
        if any(_offsets_of(each, topic) != _offsets_of(found[0], topic) for each in found):
            raise ReplayError(
                f"the flow reads topic {topic} more than once, and batch {self.batch} ended at "
                "different offsets: replay it when no new records arrive"
            )
        return found[0]


def live_end(
    checkpoint: Path, committed: int | None, marker: Marker | None, ends: Sequence[str]
) -> LiveEnd:
    """Return the end of the rows of a table's version.

    `committed`: read from the checkpoint before the version was; its later batches had no rows.
    `marker`, `ends`: the version's. ReplayError if the flow has written nothing, or the ends are
    lost.
    """
    known = [] if committed is None else [committed]
    known += [] if marker is None else [marker.batch]
    if not known:
        raise ReplayError("the flow has written no batch yet: let the pipeline run first")
    batch = max(known)
    lines = _planned(checkpoint, batch)
    if lines is None and (marker is None or marker.batch != batch or not ends):
        raise ReplayError(
            f"the end offsets of batch {batch} are neither in {checkpoint} nor in the table's log: "
            "let the pipeline write another batch, then replay"
        )
    sources = list(ends) if lines is None else lines[2:]
    positions = tuple(
        Position.of_json(json.loads(line[line.index("{") :])) for line in sources if "{" in line
    )
    state = checkpoint / "state"
    stateful = state.is_dir() and any(state.iterdir())
    return LiveEnd(batch, positions, None if lines is None else _watermark(lines[1]), stateful)


def _planned(checkpoint: Path, batch: int) -> list[str] | None:
    try:
        return (checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return None


def _watermark(line: str) -> int | None:
    found = json.loads(line).get("batchWatermarkMs")
    return None if found is None else int(found)


def _offsets_of(position: Position, topic: str) -> dict[int, int]:
    return {at.partition: end for at, end in position.offsets.items() if at.topic == topic}
