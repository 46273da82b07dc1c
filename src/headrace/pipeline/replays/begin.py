"""The begin and the end of building a replay's table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.pipeline.replays.replay import Replay, ReplayError, ReplayState
from headrace.spark.tables.delta_parts.lease import LEASE_MS, take_lease
from headrace.spark.tables.delta_parts.snapshot import snapshot_of
from headrace.spark.tables.delta_parts.swap import transaction_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.pipeline.replays.replay_store import ReplayStore
    from headrace.spark.tables.delta_parts.partition_range import PartitionRange


def begin_replay(
    store: ReplayStore,
    flow: str,
    table: str,
    range_: PartitionRange | None,
    now_ms: int,
    keys: Sequence[tuple[str, ...]] = (),
) -> Replay:
    """Store a new replay of the table's newest version, and lease its partitions; return it.

    ReplayError if the table has no partitions by the range's column; TableError.
    """
    location = store.table(table)
    columns = snapshot_of(location).partition_by
    if range_ is not None and range_.column not in columns:
        raise ReplayError(
            f"{table} is partitioned by {', '.join(columns) or 'nothing'}, not by {range_.column}"
        )
    with store.locked():
        id_ = store.next_id()
        # Before the version is read: no later compaction mixes its rows with those of batches.
        take_lease(location, id_, range_, now_ms + LEASE_MS)
        snapshot = snapshot_of(location)
        removed = frozenset(
            file.path
            for file in snapshot.files
            if range_ is None or range_.holds(snapshot.partition_by, file.key)
        )
        replay = Replay(
            id=id_,
            flow=flow,
            table=table,
            state=ReplayState.BUILDING,
            range=range_,
            version=snapshot.version,
            removed=removed,
            number=1,
            keys=tuple(keys),
        )
        number = transaction_of(location, replay.application) + 1
        return store.save(replace(replay, number=number))


def end_building(store: ReplayStore, replay: Replay) -> Replay:
    """Store that the replay's table is complete; return its record."""
    with store.locked():
        return store.save(replace(replay, state=ReplayState.BUILT))
