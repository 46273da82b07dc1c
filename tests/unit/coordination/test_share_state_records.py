"""The records that keep a share partition's state, field by field; when pruning comes and ends."""

from collections.abc import Callable
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import pytest

from headrace.coordination.share.keys import NOT_SET, ShareKey
from headrace.coordination.share.state_shard import StateShard
from headrace.delivery.cursor_state import CursorState
from headrace.delivery.record_states import RecordState, StateBatch
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import SHARE_STATE_TOPIC
from headrace.shards.shard import ShardState
from headrace.testing.disk import SimDisk
from headrace.wire.kafka.coordinator_records import share_state as wire
from tests.support.processes.broker import Room, play, room, until

KEY, OTHER = ShareKey("g", bytes(range(16)), 3), ShareKey("g", bytes(16), 0)
DONE = StateBatch(5, 6, RecordState.ACKNOWLEDGED, 1)


def fields(value: wire.SnapshotValue) -> tuple[Any, ...]:
    return (*astuple(value)[:6], list(value.batches), value.complete_count)


class Noted:
    """A journal that tells what is appended."""

    def __init__(self, journal: Any, note: Callable[[Any], None]) -> None:
        self._journal = journal
        self._note = note

    def append_soon(self, records: Any, done: Any, late: Any) -> None:
        self._note(records)
        self._journal.append_soon(records, done, late)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)


class Written:
    """A shard that is active, and what it has written since."""

    def __init__(self, here: Room, shard: StateShard) -> None:
        self.here = here
        self.shard = shard
        self.records: list[Any] = []
        shard.journal = Noted(shard.journal, self.note)  # type: ignore[assignment]

    def note(self, records: Any) -> None:
        for key, value in records:
            about = wire.decode_key(key)
            assert isinstance(about, wire.ShareKey)
            snapshot = about.type == wire.SNAPSHOT_KEY_TYPE
            decode: Callable[[bytes], Any] = (
                wire.decode_snapshot if snapshot else wire.decode_update
            )
            self.records.append((about, None if value is None else decode(value)))

    @property
    def now_ms(self) -> int:
        return self.here.broker.clock.wall_ms()

    def advance(self, seconds: float) -> None:
        clock: Any = self.here.broker.clock
        clock.advance(seconds)

    async def asked(self, ask: Callable[[Callable[[Any], None]], None]) -> ErrorCode | None:
        told: list[ErrorCode | None] = []
        ask(told.append)
        await until(lambda: told)
        (answer,) = told
        return answer

    async def initialize(self, start: int, epoch: int = 2) -> ErrorCode | None:
        return await self.asked(lambda done: self.shard.initialize(KEY, epoch, start, done))

    async def write(
        self, change: CursorState, *, epoch: int = 2, leader_epoch: int = 4, key: ShareKey = KEY
    ) -> ErrorCode | None:
        return await self.asked(
            lambda done: self.shard.write(key, epoch, leader_epoch, change, done)
        )


def tell(place: Path, story: Callable[[Written], Any]) -> None:
    async def whole() -> None:
        settings: dict[str, Any] = {
            "share_coordinator_state_topic_num_partitions": "1",
            "share_coordinator_snapshot_update_records_per_snapshot": "2",
            "share_coordinator_state_topic_prune_interval_ms": "7000",
        }
        async with room(place, SimDisk(), **settings) as here:
            await here.controller.ensure_internal_topic(SHARE_STATE_TOPIC)
            shard = here.coordinators.share.states.led.at(0)
            assert shard is not None
            await until(lambda: shard.state is ShardState.ACTIVE)
            await story(Written(here, shard))

    play(whole())


SNAPSHOT = wire.ShareKey(*KEY, wire.SNAPSHOT_KEY_TYPE)
UPDATE = wire.ShareKey(*KEY, wire.UPDATE_KEY_TYPE)


def test_a_beginning_is_a_snapshot_that_no_leader_wrote(tmp_path: Path) -> None:
    async def story(at: Written) -> None:
        assert await at.initialize(11) is None
        begun = at.now_ms
        expected = wire.SnapshotValue(0, 2, -1, 11, begun, begun, (), 0)
        assert [(key, fields(value)) for key, value in at.records] == [(SNAPSHOT, fields(expected))]
        kept = at.shard.read(KEY)
        assert kept is not None
        assert (kept.updates, kept.written_ms, kept.complete, kept.leader_epoch) == (
            0,
            begun,
            0,
            -1,
        )
        at.advance(1)
        assert await at.initialize(12, epoch=3) is None
        later = wire.SnapshotValue(1, 3, -1, 12, at.now_ms, at.now_ms, (), 0)
        assert fields(at.records[1][1]) == fields(later)
        assert await at.initialize(13, epoch=2) is ErrorCode.FENCED_STATE_EPOCH
        assert len(at.records) == 2

    tell(tmp_path, story)


def test_changes_are_updates_until_the_next_snapshot_holds_them_all(tmp_path: Path) -> None:
    async def story(at: Written) -> None:
        await at.initialize(5)
        begun = at.now_ms
        at.advance(1)
        assert await at.write(CursorState(5, (DONE,), 2)) is None
        assert await at.write(CursorState(7, (), 0)) is None
        assert at.records[1][0] == at.records[2][0] == UPDATE
        batch = (5, 6, RecordState.ACKNOWLEDGED.value, 1)
        first, second = at.records[1][1], at.records[2][1]
        assert (first.snapshot_epoch, first.leader_epoch, first.start_offset) == (0, 4, 5)
        assert [tuple(found) for found in first.batches] == [batch]
        assert (first.complete_count, second.complete_count) == (2, 0)
        assert (second.start_offset, list(second.batches)) == (7, [])
        at.advance(1)
        more = StateBatch(9, 9, RecordState.ARCHIVED, 3)
        assert await at.write(CursorState(7, (more,), 1), leader_epoch=5) is None
        key, snapshot = at.records[3]
        assert key == SNAPSHOT
        assert fields(snapshot)[:6] == (1, 2, 5, 7, begun, at.now_ms)
        assert [tuple(found) for found in snapshot.batches] == [
            (9, 9, RecordState.ARCHIVED.value, 3)
        ]
        assert snapshot.complete_count == 1
        assert await at.write(CursorState(7, (), 0), leader_epoch=5) is None
        assert at.records[4][0] == UPDATE
        assert at.records[4][1].snapshot_epoch == 1

    tell(tmp_path, story)


def test_who_has_another_picture_writes_nothing(tmp_path: Path) -> None:
    async def story(at: Written) -> None:
        change = CursorState(5)
        assert await at.write(change) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await at.initialize(5)
        await at.write(change)
        count = len(at.records)
        for epoch in (1, 3):
            assert await at.write(change, epoch=epoch) is ErrorCode.FENCED_STATE_EPOCH
        assert await at.write(change, leader_epoch=3) is ErrorCode.FENCED_LEADER_EPOCH
        assert len(at.records) == count

    tell(tmp_path, story)


def test_state_is_made_once_and_deleted_once(tmp_path: Path) -> None:
    async def story(at: Written) -> None:
        shard = at.shard
        for _ in range(2):
            assert await at.asked(lambda done: shard.make(KEY, 6, done)) is None
        await at.asked(lambda done: shard.make(OTHER, 6, done))
        assert [fields(value)[:4] for _, value in at.records] == [(0, 6, -1, NOT_SET)] * 2
        assert shard.of_topics(frozenset({KEY.topic_id})) == [KEY]
        for _ in range(2):
            assert await at.asked(lambda done: shard.delete(KEY, done)) is None
            assert at.records[2:] == [(SNAPSHOT, None)]
        assert shard.read(KEY) is None
        assert shard.read(OTHER) is not None

    tell(tmp_path, story)


def test_a_snapshot_is_taken_from_the_log_as_it_was_written(tmp_path: Path) -> None:
    async def story(at: Written) -> None:
        batches = ((5, 6, 2, 1), (7, 8, 99, 4))
        value = wire.SnapshotValue(3, 2, 4, 5, 100, 200, batches, -1)
        key = wire.encode_key(wire.ShareKey(*KEY, wire.SNAPSHOT_KEY_TYPE))
        at.shard.apply(77, None, key, wire.encode_snapshot(value))
        kept = at.shard.read(KEY)
        assert kept is not None
        assert (kept.snapshot_epoch, kept.state_epoch, kept.leader_epoch) == (3, 2, 4)
        assert (kept.created_ms, kept.written_ms) == (100, 200)
        assert (kept.complete, kept.floor, kept.updates) == (0, 77, 0)
        assert kept.known.start == 5
        # A state that we do not know is one of a record that is handed out again.
        states = [(batch.first, batch.last, batch.state) for batch in kept.known.batches()]
        assert states == [(5, 6, RecordState.ACKNOWLEDGED), (7, 8, RecordState.AVAILABLE)]
        about = wire.encode_key(wire.ShareKey(*KEY, wire.UPDATE_KEY_TYPE))
        update = wire.UpdateValue(3, 3, 7, (), 1)
        at.shard.apply(78, None, about, wire.encode_update(update))
        assert (kept.leader_epoch, kept.complete, kept.updates) == (4, 1, 1)
        assert (kept.known.start, kept.floor) == (7, 77)
        at.shard.apply(79, None, about, wire.encode_update(replace(update, snapshot_epoch=2)))
        assert kept.updates == 1
        at.shard.apply(80, None, key, None)
        assert at.shard.read(KEY) is None

    tell(tmp_path, story)


def test_pruning_comes_once_in_an_interval_until_the_shard_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(at: Written) -> None:
        pruned: list[float] = []
        monkeypatch.setattr(StateShard, "prune", lambda _: pruned.append(at.now_ms))
        await at.initialize(5)
        begun = at.now_ms
        for _ in range(3):
            at.advance(7)
        assert [when - begun for when in pruned] == [7000, 14000, 21000]
        at.shard.dropped()
        at.advance(70)
        assert len(pruned) == 3
        assert at.shard.read(KEY) is None

    tell(tmp_path, story)


def test_what_the_log_refused_is_not_taken_for_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked again, it is written: a beginning whole, a read with what is told, a deletion too."""

    async def story(at: Written) -> None:
        partition: Any = at.here.broker.partition(SHARE_STATE_TOPIC, 0)
        refused = ErrorCode.COORDINATOR_NOT_AVAILABLE

        async def without_replicas(ask: Callable[[Callable[[Any], None]], None]) -> Any:
            def refuse(*_: Any, **__: Any) -> Any:
                raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)

            with monkeypatch.context() as patch:
                patch.setattr(type(partition), "append_internal", refuse)
                return await at.asked(ask)

        def make(done: Callable[[Any], None]) -> None:
            at.shard.make(KEY, 2, done)

        def begin(done: Callable[[Any], None]) -> None:
            at.shard.initialize(KEY, 3, 5, done)

        def write(done: Callable[[Any], None]) -> None:
            at.shard.write(KEY, 3, 4, CursorState(7), done)

        def delete(done: Callable[[Any], None]) -> None:
            at.shard.delete(KEY, done)

        for ask in (make, begin, write, delete):
            assert await without_replicas(ask) is refused
            at.records.clear()
            assert await at.asked(ask) is None
            (written,) = at.records
            assert written[0] == SNAPSHOT
        assert at.shard.read(KEY) is None
        await at.initialize(5)
        assert await without_replicas(lambda done: at.shard.read_for(KEY, 9, done))
        at.records.clear()
        await at.asked(lambda done: at.shard.read_for(KEY, 9, done))
        ((key, snapshot),) = at.records
        assert (key, snapshot.leader_epoch) == (SNAPSHOT, 9)

    tell(tmp_path, story)


def test_a_change_that_comes_late_or_again_takes_back_nothing(tmp_path: Path) -> None:
    async def story(at: Written) -> None:
        await at.initialize(5)
        released = CursorState(5, (StateBatch(5, 8, RecordState.AVAILABLE, 1),))
        await at.write(released)
        await at.write(CursorState(5, (DONE,), 2))
        await at.write(released)
        kept = at.shard.read(KEY)
        assert kept is not None
        assert kept.known.batches() == (DONE, StateBatch(7, 8, RecordState.AVAILABLE, 1))

    tell(tmp_path, story)


def test_who_waits_is_told_when_replicas_take_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(at: Written) -> None:
        partition: Any = at.here.broker.partition(SHARE_STATE_TOPIC, 0)
        committed: list[Callable[[Any], None]] = []
        monkeypatch.setattr(
            type(partition),
            "when_committed",
            lambda _, _offset, callback: committed.append(callback),
        )
        told: list[ErrorCode | None] = []
        at.shard.make(KEY, 2, told.append)
        await until(lambda: committed)
        at.advance(4)
        assert told == []
        at.advance(7)
        assert told == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        committed[0](None)
        assert told == [ErrorCode.COORDINATOR_NOT_AVAILABLE]

    tell(tmp_path, story)
