"""One partition of `__share_group_state`: the share partitions whose state is kept there.

An update says what is new; after so many of them a snapshot says all. What lies before the oldest
snapshot that still counts is needed by nobody, and is deleted from the log's front (Kafka's
ShareCoordinatorShard; the topic is not compacted).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from headrace.coordination.groups.share.limits import ShareLimits
from headrace.coordination.runtime.loader import LoadLog
from headrace.coordination.runtime.shard import (
    JournalLimits,
    Shard,
    ShardPartition,
    ShardState,
    World,
)
from headrace.coordination.share.keys import NOT_SET, ShareKey
from headrace.coordination.share.state_port import StateRead
from headrace.delivery.cursor_state import CursorState, StateMap
from headrace.delivery.record_states import RecordState, StateBatch
from headrace.model.errors import ApiError, ErrorCode, StorageError
from headrace.model.nouns import SHARE_STATE_TOPIC, Offset
from headrace.ports.callbacks import Done, Once
from headrace.wire.kafka.coordinator_records import share_state as wire

if TYPE_CHECKING:
    from headrace.ports.clock import Timer

FORGOTTEN_AFTER_MS = 600_000
"""State of a topic that is gone is forgotten so long after it was written last, at the soonest."""
_GROWTH_MIN = 100
"""Records a log has to grow by before cold states are written again to let its front go."""


class StateLog(LoadLog, Protocol):
    """What a shard asks of its log beside reading it."""

    def delete_records(self, before: Offset) -> Offset: ...


class StatePartition(ShardPartition, Protocol):
    """What a shard asks of `broker.partition.Partition`."""

    @property
    def log(self) -> StateLog: ...

    @property
    def high_watermark(self) -> Offset: ...


@dataclass(slots=True)
class KeptState:
    """What is kept of one share partition."""

    known: StateMap
    state_epoch: int
    leader_epoch: int
    snapshot_epoch: int
    created_ms: int
    complete: int
    floor: int
    """No record that counts lies before this offset of the log."""
    updates: int = 0
    """Since the snapshot."""
    written_ms: int = 0
    unwritten: bool = False
    """The log lacks some of it, for an append was refused: it is written whole with what comes."""


class StateShard(Shard):
    """The state kept in one partition, for as long as this broker leads it."""

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
        """`is_topic`: whether there is a topic of that id, as far as this broker is told."""
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

    # What is asked of it, while it is active

    def read(self, key: ShareKey) -> KeptState | None:
        """Return what is kept of `key`; not to be changed."""
        return self._kept.get(key)

    def read_for(
        self, key: ShareKey, leader_epoch: int, done: Done[StateRead | ApiError | None]
    ) -> None:
        """Tell who leads the partition since `leader_epoch` what is kept of it, once durable.

        Leaders before that are refused from then on, wherever this is led: what they wrote later
        the new one would not know of. ApiError: FENCED_LEADER_EPOCH, and why it is not durable.
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
        """Have something kept of `key`: what is kept already stays as it is."""
        kept = self._kept.get(key)
        if kept is None:
            self.initialize(key, state_epoch, NOT_SET, done)
        else:
            self._leave(key, kept, done)

    def initialize(
        self, key: ShareKey, state_epoch: int, start: int, done: Done[ErrorCode | None]
    ) -> None:
        """Begin anew at `start` (NOT_SET: to be found out), whatever was kept before.

        What is kept in `state_epoch` already stays: this is asked again, and members have gone on.
        `done(FENCED_STATE_EPOCH)` where what is kept is of a later epoch.
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
        """Keep what is new of `key`; `done(None)` once that is durable.

        `done` with FENCED_STATE_EPOCH, FENCED_LEADER_EPOCH or UNKNOWN_TOPIC_OR_PARTITION where the
        asker's picture is not the one kept.
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
        """Append `change`, laid over what is kept already; or all of it, when its time has come."""
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
        """Keep nothing of `key` any more."""
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
        """Return all share partitions of these topics that have state here."""
        return [key for key in self._kept if key.topic_id in topic_ids]

    # What the log says

    def apply(
        self, log_offset: int, producer_id: int | None, key: bytes, value: bytes | None
    ) -> None:
        del producer_id  # nobody writes here in transactions
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
            return  # of a snapshot that is gone: what is kept now is newer
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
        """Delete the front of the log that nobody needs; write cold states again for the next.

        State of topics that are gone is forgotten, once it is old: of new ones this broker may not
        have been told.
        """
        settled_ms = self._clock.wall_ms() - FORGOTTEN_AFTER_MS
        for key, kept in [*self._kept.items()]:
            is_old = max(kept.written_ms, kept.created_ms) < settled_ms
            if is_old and not self._is_topic(key.topic_id):
                self.delete(key, _ignored)
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
                self._append_snapshot(key, kept, now, _ignored)

    def _schedule(self) -> None:
        seconds = self._limits().prune_interval_ms / 1000
        self._prune = self._clock.call_later(seconds, self._prune_now)

    def _prune_now(self) -> None:
        self.prune()
        self._schedule()

    def _end(self) -> int:
        # What waits in the journal comes at or behind the log's end as it is now.
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
        """Append one record; after the write timeout it is answered as not done, and may be yet.

        `durable` is called whenever that comes.
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
        """Answer that what is kept stays as it is, when it is durable."""
        if kept.unwritten:
            self._append_snapshot(key, kept, self._clock.wall_ms(), done)
        else:
            self._once_durable(done)

    def _once_durable(self, done: Done[ErrorCode | None]) -> None:
        """Answer that nothing is to be done when what came before is durable."""

        def settled() -> None:
            done(None if self.state is ShardState.ACTIVE else ErrorCode.NOT_COORDINATOR)

        self.journal.when_settled(settled)


def _ignored(error: ErrorCode | None) -> None:
    """Ignore what could not be written again: it is written again later."""


def _batches(batches: Iterable[wire.Batch]) -> tuple[StateBatch, ...]:
    found = []
    for first, last, state, count in batches:
        try:
            found.append(StateBatch(first, last, RecordState(state), count))
        except ValueError:
            # A state of a later Kafka, on its way to another: what is not settled comes again.
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
