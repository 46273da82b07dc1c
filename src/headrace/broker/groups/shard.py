"""One partition of `__consumer_offsets` and the groups that live in it.

A shard is `LOADING` until its partition's log is replayed, then `ACTIVE`; `FAILED` where the log
could not be read (its groups cannot be served: answering from half a log would lose offsets), and
`CLOSED` once another broker leads. Only an active one is asked anything.
"""

import logging
from collections.abc import Callable
from enum import Enum
from typing import Protocol

from headrace.broker.groups import expiry, rebalance, records
from headrace.broker.groups.commit import forget
from headrace.broker.groups.context import ShardContext
from headrace.broker.groups.deadlines import Deadlines
from headrace.broker.groups.group import ClassicGroup
from headrace.broker.groups.journal import Journal, JournalPartition
from headrace.broker.groups.limits import GroupLimits
from headrace.broker.groups.loader import Loader, LoadLog
from headrace.broker.groups.member import Member
from headrace.broker.groups.offsets import Committed, Place
from headrace.broker.groups.states import GroupState
from headrace.model.errors import ApiError, ErrorCode, HeadraceError
from headrace.wire.kafka.compression import CorruptBatch
from headrace.world.clock import Clock, Random, Timer
from headrace.world.disk import Disk

_logger = logging.getLogger(__name__)


class ShardPartition(JournalPartition, Protocol):
    """What a shard asks of `broker.partition.Partition`."""

    @property
    def log(self) -> LoadLog: ...


class ShardState(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


class GroupShard:
    """The groups of one partition, for as long as this broker leads it under `epoch`."""

    def __init__(
        self,
        index: int,
        partition: ShardPartition,
        *,
        epoch: int,
        clock: Clock,
        random: Random,
        disk: Disk,
        limits: GroupLimits,
    ) -> None:
        self.index = index
        self.epoch = epoch
        self.state = ShardState.LOADING
        journal = Journal(
            partition,
            clock,
            bytes_max=limits.append_bytes_max,
            timeout_seconds=limits.commit_timeout_ms / 1000,
            codec=limits.codec,
        )
        self.context = ShardContext(clock, random, limits, journal, Deadlines(clock))
        self._check: Timer | None = None
        self._waiting: list[Callable[[], None]] = []
        self._loader = Loader(partition.log, self, clock=clock, disk=disk, done=self._loaded)

    def load(self) -> None:
        """Begin the replay; a shard of an empty log is active before this returns."""
        self._loader.start()

    def check_active(self) -> ShardContext:
        """The shard's insides, if it may be asked.

        ApiError: COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR.
        """
        if self.state is ShardState.ACTIVE:
            return self.context
        if self.state is ShardState.LOADING:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        raise ApiError(ErrorCode.NOT_COORDINATOR)

    def when_loaded(self, callback: Callable[[], None]) -> None:
        """Call back once the shard is no longer loading: now if it is not."""
        if self.state is ShardState.LOADING:
            self._waiting.append(callback)
        else:
            callback()

    def unload(self) -> None:
        """Forget everything: whoever waits is told to find the new coordinator."""
        if self.state is ShardState.CLOSED:
            return
        self.state = ShardState.CLOSED
        self._loader.cancel()
        if self._check is not None:
            self._check.cancel()
        context = self.context
        context.deadlines.close()
        context.journal.close(ErrorCode.NOT_COORDINATOR)
        now_ms = context.clock.wall_ms()
        for group in list(context.groups.values()):
            rebalance.bury(group, now_ms, ErrorCode.NOT_COORDINATOR)
        context.groups.clear()
        self._tell_waiting()

    def topics_deleted(self, deleted: frozenset[str]) -> None:
        """Forget all offsets in topics that are gone, those on their way to the log too."""
        context = self.context

        def settled() -> None:
            forget(context, context.offsets.places_in(deleted), _not_waited_for)

        if self.state is ShardState.ACTIVE:
            context.journal.when_settled(settled)

    # What the log says: `loader.Replayed`

    def replay(
        self, log_offset: int, producer_id: int | None, key: bytes | None, value: bytes | None
    ) -> None:
        """Apply one record; one of another kind, or unintelligible, is passed over."""
        try:
            about = records.parse_key(key or b"")
            if about is None:
                return
            if isinstance(about, str):
                self._replay_group(about, value)
            elif value is None:
                self.context.offsets.remove(about)
            else:
                self._replay_offset(about, producer_id, records.parse_offset(value, log_offset))
        except CorruptBatch as error:
            _logger.warning(
                "__consumer_offsets-%d: record at offset %d is passed over: %s",
                self.index, log_offset, error,
            )  # fmt: skip

    def replay_end(self, producer_id: int, *, committed: bool) -> None:
        """A transaction's marker: its offsets count, or never will."""
        self.context.offsets.end_transaction(producer_id, committed=committed)

    def _replay_offset(self, place: Place, producer_id: int | None, committed: Committed) -> None:
        group_id = place[0]
        if group_id not in self.context.groups:
            self.context.groups[group_id] = ClassicGroup(group_id, committed.committed_ms)
        if producer_id is None:
            self.context.offsets.put(place, committed)
        else:
            self.context.offsets.put_in_transaction(producer_id, place, committed)

    def _replay_group(self, group_id: str, value: bytes | None) -> None:
        if value is None:
            self.context.groups.pop(group_id, None)
        else:
            self.context.groups[group_id] = restored(group_id, records.decode_group_value(value))

    # Once it is active

    def _loaded(self, error: HeadraceError | None) -> None:
        context = self.context
        if error is not None:
            self.state = ShardState.FAILED
            _logger.error(
                "__consumer_offsets-%d cannot be read, its groups are not served: %s",
                self.index, error,
            )  # fmt: skip
        else:
            self.state = ShardState.ACTIVE
            for group in list(context.groups.values()):
                self._revive(group)
            self._schedule_check()
        self._tell_waiting()

    def _revive(self, group: ClassicGroup) -> None:
        """Members of before get one session's time to be heard of again."""
        for member in group.members.values():
            rebalance.keep_alive(self.context, group, member)
        if len(group.members) > self.context.limits.max_size:
            rebalance.prepare(self.context, group)

    def _schedule_check(self) -> None:
        seconds = self.context.limits.offsets_retention_check_ms / 1000
        self._check = self.context.clock.call_later(seconds, self._expire)

    def _expire(self) -> None:
        expiry.expire(self.context)
        self._schedule_check()

    def _tell_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()


def restored(group_id: str, image: records.GroupValue) -> ClassicGroup:
    """A group as the log has it: Stable with its members, or Empty."""
    group = ClassicGroup(
        group_id,
        image.state_timestamp,
        generation=image.generation,
        protocol_type=image.protocol_type or None,
        protocol_name=image.protocol,
    )
    for one in image.members:
        group.add(_member(image, one))
    if image.members:
        group.state = GroupState.STABLE
        group.leader = image.leader if image.leader in group.members else group.leader
    group.refresh_subscriptions()
    return group


def _member(image: records.GroupValue, one: records.Member) -> Member:
    return Member(
        one.member_id,
        one.group_instance_id,
        one.client_id,
        one.client_host,
        one.rebalance_timeout_ms,
        one.session_timeout_ms,
        image.protocol_type,
        ((image.protocol or "", one.subscription),),
        one.assignment,
    )


def _not_waited_for(error: ErrorCode | None) -> None:
    """Offsets that stay are expired like any others."""
