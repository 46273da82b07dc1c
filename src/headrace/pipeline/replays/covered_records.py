"""Quarantined records whose rows an applied replay has put into its table: they are settled.

A record that fits corrected columns is a row of the replay. `headrace pipeline quarantine replay`
would send it to its flow once more, so it is noted as covered. An undo lets it wait again. Rows are
found by their position, so flows whose rows have none leave their records waiting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.model.errors import ApiError, ErrorCode
from headrace.pipeline.diffs.table_diff import POSITION
from headrace.pipeline.quarantine.records import read_quarantine
from headrace.pipeline.quarantine.settlement import cover, uncover
from headrace.spark.tables.delta_parts.snapshot import snapshot_of

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.client.client import Client
    from headrace.pipeline.quarantine.records import Quarantined
    from headrace.pipeline.replays.replay import Replay

Positions = set[tuple[int, int]]
"""Partition and offset of records of one topic."""


def settle_replay(client: Client, pipeline: str, replay: Replay, built: Path) -> int:
    """Note the quarantined records of an applied replay as covered; return how many it changed.

    `pipeline`: its name with the profile. `built`: the directory of the replay's table. Its
    rows have positions. Repeats change nothing. ApiError, ClientError; TableError if the table
    cannot be read.
    """
    topic, positions = _covered(client, pipeline, replay, built)
    return cover(client, topic, (pipeline, replay.flow), _in(positions)) if positions else 0


def unsettle_replay(client: Client, pipeline: str, replay: Replay, built: Path) -> int:
    """Let the records that a replay covered wait again; return how many. Errors as above."""
    topic, positions = _covered(client, pipeline, replay, built)
    return uncover(client, topic, (pipeline, replay.flow), _in(positions)) if positions else 0


def has_positions(replay: Replay, built: Path) -> bool:
    """Return whether rows of a replay can be told by their position: those of one topic."""
    return len(replay.offsets) == 1 and set(POSITION) <= set(snapshot_of(built).columns.names)


class _in:  # noqa: N801 - a function with its values
    """Whether a quarantined record is at one of these positions."""

    def __init__(self, positions: Positions) -> None:
        self._positions = positions

    def __call__(self, record: Quarantined) -> bool:
        return _position(record) in self._positions


def _covered(client: Client, pipeline: str, replay: Replay, built: Path) -> tuple[str, Positions]:
    """Return the replay's topic, and the positions of quarantined records that are its rows."""
    ((topic, ranges),) = replay.offsets.items()
    refused: Positions = set()
    try:
        for record in read_quarantine(client, topic):
            partition, offset = position = _position(record)
            first, end = ranges.get(str(partition), (0, 0))
            if record.owner == (pipeline, replay.flow) and first <= offset < end:
                refused.add(position)
    except ApiError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
    return topic, _rows_at(built, refused)


def _rows_at(built: Path, positions: Positions) -> Positions:
    """Return the positions at which a Delta table has a row."""
    found: Positions = set()
    if not positions:
        return found
    snapshot = snapshot_of(built)
    offsets = pa.array(sorted({offset for _, offset in positions}), pa.int64())
    for each in snapshot.files:
        with pq.ParquetFile(snapshot.location / each.path) as file:
            for rows in file.iter_batches(columns=list(POSITION)):
                near = rows.filter(pc.is_in(rows.column(POSITION[1]), offsets))
                places = zip(*(near.column(name).to_pylist() for name in POSITION), strict=True)
                found |= positions.intersection(places)
    return found


def _position(record: Quarantined) -> tuple[int, int]:
    partition, offset = record.info["partition"], record.info["offset"]
    return (int(partition), int(offset)) if partition and offset else (-1, -1)
