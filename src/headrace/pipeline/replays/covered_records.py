"""Quarantined records whose rows a replay puts into its table, or removes from it.

A record that fits corrected columns is a row of the replay. `headrace pipeline quarantine replay`
would send it to its flow once more, so it is noted as covered before the replay's files are in the
table. If a step removes its row, it waits again. Rows are found by their position, so flows whose
rows have none leave their records waiting.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import counted
from headrace.pipeline.diffs.table_diff import POSITION
from headrace.pipeline.quarantine.records import read_quarantine
from headrace.pipeline.quarantine.retries import positions_on_the_way
from headrace.pipeline.quarantine.settled import COVERED, REPLAYED
from headrace.pipeline.quarantine.settlement import settle
from headrace.pipeline.replays.replay import OutdatedDiffError, ReplayError, ReplayState
from headrace.pipeline.replays.replay_store import ReplayStore
from headrace.pipeline.run.planned_batch import newest_batch, positions_of
from headrace.spark.tables.delta_parts.snapshot import snapshot_of
from headrace.spark.tables.errors import TableError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from pathlib import Path

    from headrace.client.client import Client
    from headrace.model.nouns import TopicPartition
    from headrace.pipeline.quarantine.records import Quarantined
    from headrace.pipeline.replays.replay import Replay
    from headrace.pipeline.run.storage import Storage
    from headrace.spark.tables.delta_parts.snapshot import Snapshot

Position = tuple[int, int]
"""Partition and offset of a record of one topic."""
Positions = set[Position]
_SHOWN = 3


@dataclass(frozen=True)
class _Rows:
    """Which quarantined records have a row that a step adds or removes."""

    topic: str
    newest: Mapping[Position, int]
    """The newest attempt of each."""
    added: Positions
    removed: Positions

    def is_newest(self, record: Quarantined) -> bool:
        """Return whether a record is the newest attempt at its position."""
        return record.attempt >= self.newest.get(record.place, 0)


@dataclass
class CoveredRecords:
    """`QuarantineNotes` in the topics of a pipeline's flows."""

    connect: Callable[[], Client]
    """Returns a client of the brokers; it is called only for rows that have positions."""
    pipeline: str
    """The pipeline's name with the profile."""
    storage: Storage
    covered: int = field(default=0, init=False)
    """Records that were noted as covered."""
    waiting: int = field(default=0, init=False)
    """Records that wait again."""

    def cover(self, replay: Replay) -> None:
        """Note waiting records that become rows, as `QuarantineNotes`; TableError if the table
        cannot be read."""
        if not self._has_rows(replay):
            return
        with self.connect() as client:
            rows = self._rows(client, replay)
            if not rows.added:
                return
            # Read before the notes: what batches until then refused again is in the quarantine.
            read = self._read_by_flow(replay)
            sent: Positions = set()

            def decide(record: Quarantined, outcome: str | None) -> str | None:
                position = record.place
                if position not in rows.added or not rows.is_newest(record):
                    return outcome
                if outcome == REPLAYED and position not in rows.removed:
                    sent.add(position)
                else:
                    sent.discard(position)  # It was refused again meanwhile.
                return outcome or COVERED

            self.covered += settle(client, rows.topic, (self.pipeline, replay.flow), decide)
            # From here on nothing sends the covered ones; those that were sent before are checked.
            if sent:
                unread = positions_on_the_way(client, self.pipeline, rows.topic, replay.flow, read)
                self._check_sent(replay, rows.topic, sent, sent & unread)

    def release(self, replay: Replay) -> None:
        """Let records wait again whose rows the step has removed, as `QuarantineNotes`."""
        undo = replay.state is ReplayState.UNDOING
        # An undo removes rows that were no rows before the replay, so what was sent stays so.
        self._wait(replay, (COVERED,) if undo else (COVERED, REPLAYED), take_back=False)

    def take_back(self, replay: Replay) -> None:
        """Undo `cover`, as `QuarantineNotes`."""
        self._wait(replay, (COVERED,), take_back=True)

    def _wait(self, replay: Replay, outcomes: Collection[str], *, take_back: bool) -> None:
        """Let records wait again whose rows are not in the table after the step."""
        if not self._has_rows(replay):
            return
        with self.connect() as client:
            rows = self._rows(client, replay)
            gone = rows.added - rows.removed if take_back else rows.removed - rows.added
            if not gone:
                return

            def decide(record: Quarantined, outcome: str | None) -> str | None:
                chosen = record.place in gone and rows.is_newest(record)
                return None if chosen and outcome in outcomes else outcome

            changed = settle(client, rows.topic, (self.pipeline, replay.flow), decide)
            if take_back:
                self.covered -= changed
            else:
                self.waiting += changed

    def _has_rows(self, replay: Replay) -> bool:
        """Return whether the live flow writes this table, and rows can be told by position."""
        name, _ = _version_of(replay)
        if self.storage.table(name).name != replay.table or len(replay.offsets) != 1:
            return False
        return set(POSITION) <= set(snapshot_of(self._built(replay)).columns.names)

    def _built(self, replay: Replay) -> Path:
        return ReplayStore(self.storage.root).built(replay)

    def _rows(self, client: Client, replay: Replay) -> _Rows:
        """Return the records in the replay's range whose rows its step adds or removes."""
        ((topic, ranges),) = replay.offsets.items()
        newest: dict[Position, int] = {}
        try:
            for record in read_quarantine(client, topic):
                partition, offset = position = record.place
                first, end = ranges.get(str(partition), (0, 0))
                if record.owner == (self.pipeline, replay.flow) and first <= offset < end:
                    newest[position] = max(newest.get(position, 0), record.attempt)
        except ApiError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
        if not newest:
            return _Rows(topic, newest, set(), set())
        built = _rows_at(snapshot_of(self._built(replay)), newest)
        table = snapshot_of(self.storage.root / replay.table, replay.version)
        replaced = _rows_at(table, newest, replay.removed)
        undo = replay.state is ReplayState.UNDOING
        return _Rows(topic, newest, *((replaced, built) if undo else (built, replaced)))

    def _read_by_flow(self, replay: Replay) -> Mapping[TopicPartition, int]:
        """Return the end offsets of the flow's last finished batch."""
        name, version = _version_of(replay)
        checkpoint = self.storage.checkpoint_of(name, replay.flow, version)
        batch = newest_batch(checkpoint / "commits")
        return {} if batch is None else positions_of(checkpoint, batch)

    def _check_sent(self, replay: Replay, topic: str, sent: Positions, unread: Positions) -> None:
        """Raise OutdatedDiffError, or ReplayError of an undo, if the live flow has rows of records
        that were sent, or has still to read them: they would be in the table twice."""
        written = _rows_at(snapshot_of(self.storage.root / replay.table), sent)
        if not unread and not written:
            return
        found = sorted(unread or written)
        shown = ", ".join(f"{topic}-{at}@{offset}" for at, offset in found[:_SHOWN])
        what = (
            f"{counted(len(found), 'record')} of the quarantine ({shown}"
            f"{', …' if len(found) > _SHOWN else ''}) would be in {replay.table} twice, because "
            f"the flow {'has still to read' if unread else 'has written'} what `headrace pipeline "
            "quarantine replay` sent"
        )
        if replay.state is ReplayState.UNDOING:
            raise ReplayError(
                f"{replay.id} cannot be undone: {what}: replay {replay.days} again instead"
            )
        first = "let the pipeline run, then " if unread else ""
        raise OutdatedDiffError(f"{what}: {first}discard {replay.id} and replay again")


def _version_of(replay: Replay) -> tuple[str, int]:
    """Return the target of a replay's flow, and the version that its table is."""
    name, _, version = replay.table.partition("@")
    return name, int(version or 0)


def _rows_at(
    snapshot: Snapshot, positions: Collection[Position], paths: Collection[str] | None = None
) -> Positions:
    """Return the positions at which a table has a row, in these of its files or in all."""
    found: Positions = set()
    if not positions or not set(POSITION) <= set(snapshot.columns.names):
        return found
    wanted = set(positions)
    offsets = pa.array(sorted({offset for _, offset in wanted}), pa.int64())
    for each in snapshot.files:
        if paths is not None and each.path not in paths:
            continue
        for rows in _positions_in(snapshot.location / each.path):
            near = rows.filter(pc.is_in(rows.column(POSITION[1]), offsets))
            places = zip(*(near.column(name).to_pylist() for name in POSITION), strict=True)
            found |= wanted.intersection(places)
    return found


def _positions_in(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the positions of a file's rows; nothing if it was written without."""
    try:
        with pq.ParquetFile(path) as file:
            if set(POSITION) <= set(file.schema_arrow.names):
                yield from file.iter_batches(columns=list(POSITION))
    except FileNotFoundError as error:
        raise TableError(f"{path} is deleted, so its rows are not known") from error
