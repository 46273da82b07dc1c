"""Notes on quarantined records around the steps of a replay: each is a row or waits, not both."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from headrace.client.transport.port import CannotConnect
from headrace.pipeline.replays.replay import OutdatedDiffError, Replay, ReplayState
from headrace.pipeline.replays.steps import apply_replay, resume, undo_replay
from headrace.spark.tables.delta_parts.snapshot import Snapshot, snapshot_of
from tests.support.spark.replays import NOW_MS, OLD, Shop, expected, killed_at_each_line

ADDED, REMOVED = 8, 6
"""Offsets of refused records: the replay has a row of the first one; of the second one, which was
sent again and accepted, only the table has."""
REFUSED = {ADDED, REMOVED}


class Notes:
    """The settled records of a shop's quarantine, in a file."""

    def __init__(self, shop: Shop) -> None:
        self.shop, self.file = shop, shop.storage / "settled.json"
        if not self.file.exists():
            self._save({REMOVED})

    @property
    def settled(self) -> set[int]:
        return set(json.loads(self.file.read_text()))

    def cover(self, replay: Replay) -> None:
        self._save(self.settled | self._moved(replay)[0] & REFUSED)

    def release(self, replay: Replay) -> None:
        added, removed = self._moved(replay)
        self._save(self.settled - (removed - added))

    def take_back(self, replay: Replay) -> None:
        added, removed = self._moved(replay)
        self._save(self.settled - (added - removed))

    def check(self, *, done: bool) -> None:
        """A record that waits has no row, for it would be sent; if a step is done, the others
        have one."""
        rows = set(self.shop.rows()) & REFUSED
        assert not rows - self.settled
        assert not done or rows == self.settled

    def _save(self, settled: set[int]) -> None:
        self.file.write_text(json.dumps(sorted(settled)))

    def _moved(self, replay: Replay) -> tuple[set[int], set[int]]:
        """Offsets that the replay's step adds and removes."""
        table = snapshot_of(self.shop.store.table(replay.table), replay.version)
        replaced = _offsets(table, replay.removed)
        built = _offsets(snapshot_of(self.shop.store.built(replay)))
        undo = replay.state is ReplayState.UNDOING
        assert undo or replay.state is ReplayState.APPLYING
        return (replaced, built) if undo else (built, replaced)


def _offsets(snapshot: Snapshot, paths: frozenset[str] | None = None) -> set[int]:
    return {
        offset
        for file in snapshot.files
        if paths is None or file.path in paths
        for offset in pq.read_table(snapshot.location / file.path)["offset"].to_pylist()
    }


class Away(Notes):
    """Brokers that are away when the step begins, or when it has committed."""

    def __init__(self, shop: Shop, at: str) -> None:
        super().__init__(shop)
        self.at = at

    def cover(self, replay: Replay) -> None:
        if self.at == "cover":
            raise CannotConnect("no broker answers")
        super().cover(replay)

    def release(self, replay: Replay) -> None:
        if self.at == "release":
            raise CannotConnect("no broker answers")
        super().release(replay)


def apply(shop: Shop, notes: Notes) -> object:
    return apply_replay(shop.store, "r1", NOW_MS, notes)


def undo(shop: Shop, notes: Notes) -> object:
    return undo_replay(shop.store, "r1", notes)


Step = Callable[[Shop, Notes], object]
STEPS = pytest.mark.parametrize("step", [apply, undo])


@pytest.fixture
def shop(shop: Shop) -> Shop:
    """A shop with a replay of the first day."""
    shop.build([0, 2, 4, ADDED])
    return shop


def applied_for(step: Step, shop: Shop) -> Notes:
    """Notes of a shop whose replay is applied, if the step is its undo."""
    notes = Notes(shop)
    if step is undo:
        apply(shop, notes)
        notes.check(done=True)
    return notes


@pytest.mark.parametrize("started", [False, True])
@STEPS
def test_step_killed_at_any_line_leaves_each_record_in_one_place(
    shop: Shop, tmp_path: Path, step: Step, started: bool
) -> None:
    notes = applied_for(step, shop)
    killed = killed_at_each_line(shop, tmp_path, partial(step, shop, notes))
    for number, other in enumerate(killed):
        notes = Notes(other)
        notes.check(done=number == len(killed) - 1)
        if started:
            resume(other.store, NOW_MS, notes)
            notes.check(done=True)
        step(other, notes)
        notes.check(done=True)
        assert notes.settled == ({REMOVED} if step is undo else {ADDED})
    assert len(killed) >= 8


@pytest.mark.parametrize("at", ["cover", "release"])
@STEPS
def test_step_without_brokers_is_completed_by_the_next_start_that_has_them(
    shop: Shop, step: Step, at: str, caplog: pytest.LogCaptureFixture
) -> None:
    applied_for(step, shop)
    before = shop.rows()
    away, state = Away(shop, at), ReplayState.UNDOING if step is undo else ReplayState.APPLYING
    with pytest.raises(CannotConnect):
        step(shop, away)
    assert (shop.rows() == before) == (at == "cover")
    away.check(done=False)
    (found,) = resume(shop.store, NOW_MS, away)
    assert found.state is state
    assert "no broker answers" in caplog.text
    away.check(done=False)
    (found,) = resume(shop.store, NOW_MS, Notes(shop))
    assert found.state is (ReplayState.UNDONE if step is undo else ReplayState.APPLIED)
    Notes(shop).check(done=True)


def test_notes_of_an_apply_that_is_refused_are_taken_back(shop: Shop) -> None:
    notes = Notes(shop)
    DeltaTable(str(shop.live.path)).delete('"offset" = 2')
    with pytest.raises(OutdatedDiffError, match="replaced or deleted rows"):
        apply(shop, notes)
    notes.check(done=True)
    assert notes.settled == {REMOVED}
    assert shop.store.load("r1").state is ReplayState.DIFFED


def test_records_that_were_sent_refuse_an_apply_before_its_commit(shop: Shop) -> None:
    class Sent(Notes):
        def cover(self, replay: Replay) -> None:
            super().cover(replay)
            raise OutdatedDiffError("the flow has still to read them")

    notes, version = Sent(shop), DeltaTable(str(shop.live.path)).version()
    for _ in range(2):
        with pytest.raises(OutdatedDiffError, match="still to read"):
            apply(shop, notes)
        assert shop.rows() == expected(OLD)
        assert notes.settled == {REMOVED}
        assert shop.store.load("r1").state is ReplayState.DIFFED
    assert DeltaTable(str(shop.live.path)).version() == version
    apply(shop, Notes(shop))
    notes.check(done=True)
