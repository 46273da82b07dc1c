"""`StateShard`: one partition of `__share_group_state`, with the states of its share partitions.

An update record has the changes of one key; after a number of updates a snapshot has the state.
Records before the oldest valid snapshot are deleted from the log's front (as Kafka does).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from headrace.coordination.groups.share.limits import ShareLimits
from headrace.coordination.share.keys import NOT_SET, ShareKey
from headrace.coordination.share.state_port import StateRead
from headrace.delivery.cursor_state import CursorState, StateMap
from headrace.delivery.record_states import RecordState, StateBatch
from headrace.model.errors import ApiError, ErrorCode, StorageError
from headrace.model.nouns import SHARE_STATE_TOPIC, Offset
from headrace.ports.callbacks import Done, Once, ignore_result
from headrace.shards.loader import LoadLog
from headrace.shards.shard import (
    JournalLimits,
    Shard,
    ShardPartition,
    ShardState,
    World,
)
from headrace.wire.kafka.coordinator_records import share_state as wire

if TYPE_CHECKING:
    from headrace.ports.clock import Timer

FORGOTTEN_AFTER_MS = 600_000
"""Milliseconds since the last write after which the state of a deleted topic may be deleted."""
_GROWTH_MIN = 100
"""Records by which a log must grow before idle states are written again to free its front."""


class StateLog(LoadLog, Protocol):
    """The methods of a log that a state shard calls."""

    def delete_records(self, before: Offset) -> Offset: ...


class StatePartition(ShardPartition, Protocol):
    """The part of `broker.partition.Partition` that a state shard uses."""

    @property
    def log(self) -> StateLog: ...

    @property
    def high_watermark(self) -> Offset: ...


@dataclass(slots=True)
class KeptState:
    """The state of one share partition, as replayed and changed."""

    known: StateMap
    state_epoch: int
    leader_epoch: int
    snapshot_epoch: int
    created_ms: int
    complete: int
    floor: int
    """Log offset before which no record of this key is needed."""
    updates: int = 0
    """Updates since the snapshot."""
    written_ms: int = 0
    unwritten: bool = False
    """Whether an append failed, so that the log lacks a change: the next record is a snapshot."""


class StateShard(Shard):
    """The states in one partition, while this broker leads it."""

    KEYED = False  # updates of one key add up

    def __init__(
        self,
        index: int,
        partition: StatePartition,
        *,
        epoch: int,
        world: World,
        limits: Callable[[], ShareLimits],
        is_topic: Callable[[bytes], bool],
    ) -> None:
        """Create in state LOADING. `is_topic`: whether the image has a topic with that id."""
        present = limits()
        journal = JournalLimits(present.state_write_timeout_ms, present.state_codec)
        super().__init__(
            SHARE_STATE_TOPIC, index, partition, epoch=epoch, world=world, limits=journal
        )
        self._partition = partition
        self._clock = world.clock
        self._limits = limits
        self._is_topic = is_topic
        self._kept: dict[ShareKey, KeptState] = {}
        self._prune: Timer | None = None

    # Requests, while the shard is active

    def read(self, key: ShareKey) -> KeptState | None:
        """Return the state of `key`, which the caller must not change; None: there is no state."""
        return self._kept.get(key)

    def read_for(
        self, key: ShareKey, leader_epoch: int, done: Done[StateRead | ApiError | None]
    ) -> None:
        """Give the leader of `leader_epoch` the state of a share partition, once it is durable.

        Writes of earlier leaders are refused from then on, as the new leader would not know of
        them. ApiError: FENCED_LEADER_EPOCH, or why the state is not durable.
        """
        kept = self._kept.get(key)
        if kept is not None and leader_epoch < kept.leader_epoch:
            done(ApiError(ErrorCode.FENCED_LEADER_EPOCH))
            return
        found = None
        if kept is not None:
            found = StateRead(kept.state_epoch, CursorState(kept.known.start, kept.known.batches()))

        def settled(error: ErrorCode | None) -> None:
            if error is None and self.state is not ShardState.ACTIVE:
                error = ErrorCode.NOT_COORDINATOR
            done(found if error is None else ApiError(error))

        if kept is None or (leader_epoch == kept.leader_epoch and not kept.unwritten):
            self.journal.when_settled(lambda: settled(None))
            return
        kept.leader_epoch = leader_epoch
        self._append_update(key, kept, CursorState(kept.known.start, (), kept.complete), settled)

    def make(self, key: ShareKey, state_epoch: int, done: Done[ErrorCode | None]) -> None:
        """Create the state of `key` with start offset NOT_SET; existing state stays."""
        kept = self._kept.get(key)
        if kept is None:
            self.initialize(key, state_epoch, NOT_SET, done)
        else:
            self._leave(key, kept, done)

    def initialize(
        self, key: ShareKey, state_epoch: int, start: int, done: Done[ErrorCode | None]
    ) -> None:
        """Reset the state to `start` (NOT_SET: not determined yet), whatever was stored before.

        State that is in `state_epoch` already stays: the request is a retry, and members have
        continued. `done(FENCED_STATE_EPOCH)`: the stored state is of a later epoch.
        """
        former = self._kept.get(key)
        if former is not None and state_epoch <= former.state_epoch:
            if state_epoch < former.state_epoch:
                done(ErrorCode.FENCED_STATE_EPOCH)
            else:
                self._leave(key, former, done)
            return
        now = self._clock.wall_ms()
        kept = self._kept[key] = KeptState(
            StateMap(CursorState(start)),
            state_epoch,
            leader_epoch=-1 if former is None else former.leader_epoch,
            snapshot_epoch=0 if former is None else former.snapshot_epoch + 1,
            created_ms=now,
            complete=0,
            floor=self._end() if former is None else former.floor,
        )
        self._append_snapshot(key, kept, now, done)

    def write(
        self,
        key: ShareKey,
        state_epoch: int,
        leader_epoch: int,
        change: CursorState,
        done: Done[ErrorCode | None],
    ) -> None:
        """Store changes of `key`.

        `done` gets None once they are durable, or as `ShareStatePort.write`.
        """
        kept = self._kept.get(key)
        if kept is None:
            done(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return
        if state_epoch != kept.state_epoch:
            done(ErrorCode.FENCED_STATE_EPOCH)
            return
        if leader_epoch < kept.leader_epoch:
            done(ErrorCode.FENCED_LEADER_EPOCH)
            return
        kept.leader_epoch = leader_epoch
        kept.known.lay_over(change)
        kept.complete = change.settled
        self._append_update(key, kept, change, done)

    def _append_update(
        self, key: ShareKey, kept: KeptState, change: CursorState, done: Done[ErrorCode | None]
    ) -> None:
        """Append `change` as an update, or the whole state as a snapshot if one is due."""
        kept.written_ms = now = self._clock.wall_ms()
        if kept.unwritten or kept.updates >= self._limits().updates_per_snapshot:
            kept.snapshot_epoch += 1
            self._append_snapshot(key, kept, now, done)
            return
        kept.updates += 1
        update = wire.UpdateValue(
            kept.snapshot_epoch, kept.leader_epoch, change.start, change.batches, change.settled
        )
        self._append(wire.UPDATE_KEY_TYPE, key, wire.encode_update(update), done)

    def delete(self, key: ShareKey, done: Done[ErrorCode | None]) -> None:
        """Delete the state of `key`: append a tombstone."""
        kept = self._kept.pop(key, None)
        if kept is None:
            self._once_durable(done)
            return

        def ended(error: ErrorCode | None) -> None:
            if error is not None:
                self._kept.setdefault(key, kept).unwritten = True
            done(error)

        self._append(wire.SNAPSHOT_KEY_TYPE, key, None, ended)

    def of_topics(self, topic_ids: frozenset[bytes]) -> list[ShareKey]:
        """Return the keys of all states of these topics."""
        return [key for key in self._kept if key.topic_id in topic_ids]

    # Replay

    def apply(
        self, log_offset: int, producer_id: int | None, key: bytes, value: bytes | None
    ) -> None:
        del producer_id  # no transaction writes here
        about = wire.decode_key(key)
        if isinstance(about, wire.OtherShareKey):
            return
        share_key = ShareKey(about.group, about.topic_id, about.partition)
        if value is None:
            self._kept.pop(share_key, None)
        elif about.type == wire.SNAPSHOT_KEY_TYPE:
            self._kept[share_key] = _restored(wire.decode_snapshot(value), log_offset)
        else:
            self._apply_update(share_key, wire.decode_update(value))

    def _apply_update(self, key: ShareKey, update: wire.UpdateValue) -> None:
        kept = self._kept.get(key)
        if kept is None or update.snapshot_epoch != kept.snapshot_epoch:
            return  # of a superseded snapshot: the present state is newer
        kept.leader_epoch = max(kept.leader_epoch, update.leader_epoch)
        kept.known.lay_over(CursorState(update.start_offset, _batches(update.batches)))
        kept.complete = max(update.complete_count, 0)
        kept.updates += 1

    # While it serves

    def loaded(self) -> None:
        self._schedule()

    def dropped(self) -> None:
        if self._prune is not None:
            self._prune.cancel()
        self._kept.clear()

    def prune(self) -> None:
        """Delete the log's unneeded front.

        Write idle states again, so that more can be deleted later.

        Old states of deleted topics are deleted; a new topic may not be in the metadata image yet.
        """
        settled_ms = self._clock.wall_ms() - FORGOTTEN_AFTER_MS
        for key, kept in [*self._kept.items()]:
            is_old = max(kept.written_ms, kept.created_ms) < settled_ms
            if is_old and not self._is_topic(key.topic_id):
                self.delete(key, ignore_result)
        log = self._partition.log
        end = self._partition.high_watermark
        floor = min((kept.floor for kept in self._kept.values()), default=end)
        upto = Offset(min(floor, end))
        if upto > log.start_offset:
            try:
                log.delete_records(upto)
            except (ApiError, StorageError):
                return  # the directory has said so in the log
        if end - floor <= _GROWTH_MIN + 2 * len(self._kept):
            return
        now = self._clock.wall_ms()
        cold_ms = self._limits().cold_snapshot_interval_ms
        for key, kept in self._kept.items():
            if kept.floor < end and now - kept.written_ms >= cold_ms:
                kept.snapshot_epoch += 1
                self._append_snapshot(key, kept, now, ignore_result)

    def _schedule(self) -> None:
        seconds = self._limits().prune_interval_ms / 1000
        self._prune = self._clock.call_later(seconds, self._prune_now)

    def _prune_now(self) -> None:
        self.prune()
        self._schedule()

    def _end(self) -> int:
        # Waiting records will be appended at or behind the present end.
        return self._partition.log.end_offset

    def _append_snapshot(
        self, key: ShareKey, kept: KeptState, now_ms: int, done: Done[ErrorCode | None]
    ) -> None:
        kept.updates = 0
        kept.unwritten = False
        kept.written_ms = now_ms
        floor = self._end()

        def durable() -> None:
            kept.floor = max(kept.floor, floor)

        value = wire.SnapshotValue(
            kept.snapshot_epoch,
            kept.state_epoch,
            kept.leader_epoch,
            kept.known.start,
            kept.created_ms,
            now_ms,
            kept.known.batches(),
            kept.complete,
        )
        self._append(wire.SNAPSHOT_KEY_TYPE, key, wire.encode_snapshot(value), done, durable)

    def _append(
        self,
        key_type: int,
        key: ShareKey,
        value: bytes | None,
        done: Done[ErrorCode | None],
        durable: Callable[[], None] | None = None,
    ) -> None:
        """Append one record; `durable` is called once it is durable, however late.

        After the write timeout `done` gets COORDINATOR_NOT_AVAILABLE, though it may still succeed.
        """
        answer = Once(done)

        def ended(error: ErrorCode | None) -> None:
            kept = self._kept.get(key)
            if error is not None and kept is not None:
                kept.unwritten = True
            if error is None and durable is not None:
                durable()
            answer(error)

        record = (wire.encode_key(wire.ShareKey(*key, key_type)), value)
        late = partial(answer, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.journal.append_soon([record], ended, late)

    def _leave(self, key: ShareKey, kept: KeptState, done: Done[ErrorCode | None]) -> None:
        """Leave the state as it is; `done` is called once it is durable."""
        if kept.unwritten:
            self._append_snapshot(key, kept, self._clock.wall_ms(), done)
        else:
            self._once_durable(done)

    def _once_durable(self, done: Done[ErrorCode | None]) -> None:
        """Call `done` once earlier appends are durable; NOT_COORDINATOR: the shard is closed."""

        def settled() -> None:
            done(None if self.state is ShardState.ACTIVE else ErrorCode.NOT_COORDINATOR)

        self.journal.when_settled(settled)


def _batches(batches: Iterable[wire.Batch]) -> tuple[StateBatch, ...]:
    found = []
    for first, last, state, count in batches:
        try:
            found.append(StateBatch(first, last, RecordState(state), count))
        except ValueError:
            # A state number of a later Kafka: the record is delivered again.
            found.append(StateBatch(first, last, RecordState.AVAILABLE, count))
    return tuple(found)


def _restored(value: wire.SnapshotValue, log_offset: int) -> KeptState:
    state = CursorState(max(value.start_offset, NOT_SET), _batches(value.batches))
    return KeptState(
        StateMap(state),
        value.state_epoch,
        value.leader_epoch,
        value.snapshot_epoch,
        value.create_timestamp,
        max(value.complete_count, 0),
        log_offset,
        written_ms=value.write_timestamp,
    )
