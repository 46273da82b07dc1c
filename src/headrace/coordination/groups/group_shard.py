"""A partition of `__consumer_offsets` and the groups that it stores."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.broker.metadata_image import MetadataImage
from headrace.coordination.groups import expiry, records
from headrace.coordination.groups.classic import rebalance
from headrace.coordination.groups.classic.group import ClassicGroup
from headrace.coordination.groups.classic.member import ClassicMember
from headrace.coordination.groups.classic.states import GroupState
from headrace.coordination.groups.commit import forget
from headrace.coordination.groups.committed_offsets import Committed, Place
from headrace.coordination.groups.consumer import leaving
from headrace.coordination.groups.consumer import records as consumer_records
from headrace.coordination.groups.consumer.group import ConsumerGroup
from headrace.coordination.groups.context import ShardContext
from headrace.coordination.groups.limits import GroupLimits
from headrace.coordination.groups.modern.changes import GroupEpoch
from headrace.coordination.groups.share import heartbeat as share_heartbeat
from headrace.coordination.groups.share import records as share_records
from headrace.coordination.groups.share.group import ShareGroup
from headrace.model.errors import ErrorCode
from headrace.model.nouns import OFFSETS_TOPIC
from headrace.ports.callbacks import ignore_result
from headrace.shards.shard import (
    JournalLimits,
    Shard,
    ShardPartition,
    ShardState,
    World,
)

if TYPE_CHECKING:
    from headrace.ports.clock import Timer


class GroupShard(Shard):
    """The groups of one partition, for as long as this broker leads it."""

    def __init__(
        self,
        index: int,
        partition: ShardPartition,
        *,
        epoch: int,
        world: World,
        limits: GroupLimits,
        image: Callable[[], MetadataImage],
        group_setting: Callable[[str, str], int],
    ) -> None:
        journal = JournalLimits(limits.commit_timeout_ms, limits.codec, limits.append_bytes_max)
        super().__init__(OFFSETS_TOPIC, index, partition, epoch=epoch, world=world, limits=journal)
        self.context = ShardContext(
            world.clock,
            world.random,
            limits,
            self.journal,
            self.deadlines,
            image,
            group_setting,
            world.disk.run,
        )
        self._check: Timer | None = None

    def dropped(self) -> None:
        if self._check is not None:
            self._check.cancel()
        context = self.context
        now_ms = context.clock.wall_ms()
        for group in list(context.groups.values()):
            rebalance.bury(group, now_ms, ErrorCode.NOT_COORDINATOR)
        context.groups.clear()
        for modern in context.modern.values():
            modern.timers.end()
        context.modern.clear()

    def topics_deleted(self, deleted: frozenset[str]) -> None:
        """Delete all committed offsets of deleted topics, those in flight included."""
        context = self.context

        def settled() -> None:
            # If it fails, the offsets that stay expire by retention.
            forget(context, context.offsets.places_in(deleted), ignore_result)

        if self.state is ShardState.ACTIVE:
            context.journal.when_settled(settled)

    # What the log says

    def apply(
        self, log_offset: int, producer_id: int | None, key: bytes, value: bytes | None
    ) -> None:
        about = records.parse_key(key)
        if isinstance(about, int):
            self._replay_modern(about, key, value)
        elif isinstance(about, str):
            self._replay_group(about, value)
        elif value is None:
            self.context.offsets.remove(about)
        else:
            self._replay_offset(about, producer_id, records.parse_offset(value, log_offset))

    def replay_end(self, producer_id: int, *, committed: bool) -> None:
        """Replay a transaction marker: make its pending offsets visible, or drop them."""
        self.context.offsets.end_transaction(producer_id, committed=committed)

    def _replay_offset(self, place: Place, producer_id: int | None, committed: Committed) -> None:
        group_id = place[0]
        if group_id not in self.context.groups and group_id not in self.context.modern:
            self.context.groups[group_id] = ClassicGroup(group_id, committed.committed_ms)
        if producer_id is None:
            self.context.offsets.put(place, committed)
        else:
            self.context.offsets.put_in_transaction(producer_id, place, committed)

    def _replay_group(self, group_id: str, value: bytes | None) -> None:
        if value is None:
            self.context.groups.pop(group_id, None)
        else:
            self.context.modern.pop(group_id, None)
            self.context.groups[group_id] = restored(group_id, records.decode_group_value(value))

    def _replay_modern(self, key_type: int, key: bytes, value: bytes | None) -> None:
        kind: type[ConsumerGroup | ShareGroup]
        change: Any
        if key_type in consumer_records.KEY_TYPES:
            kind = ConsumerGroup
            group_id, change = consumer_records.decode(key, value)
        elif key_type in share_records.KEY_TYPES:
            kind = ShareGroup
            group_id, change = share_records.decode(key, value)
        else:
            return
        modern = self.context.modern
        group = modern.get(group_id)
        if not isinstance(group, kind):
            if value is None:
                return
            # Earlier records of a group of another kind with this id are superseded.
            self.context.groups.pop(group_id, None)
            group = modern[group_id] = kind(group_id)
        group.apply(change)
        if isinstance(change, GroupEpoch) and change.epoch is None:
            del modern[group_id]

    # Once it is active

    def loaded(self) -> None:
        for classic in list(self.context.groups.values()):
            self._revive(classic)
        for group in self.context.modern.all_of(ConsumerGroup):
            leaving.revive(self.context, group)
        share_heartbeat.revive(self.context)
        self._schedule_check()

    def _revive(self, group: ClassicGroup) -> None:
        """Start a session for each restored member, so that it expires unless it sends a
        request."""
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


def restored(group_id: str, image: records.GroupValue) -> ClassicGroup:
    """Build a classic group from its record: Stable if it has members, else Empty."""
    group = ClassicGroup(
        group_id,
        image.state_timestamp,
        generation=image.generation,
        protocol_type=image.protocol_type or None,
        protocol_name=image.protocol,
    )
    for member in image.members:
        group.add(_member(image, member))
    if image.members:
        group.state = GroupState.STABLE
        group.leader = image.leader if image.leader in group.members else group.leader
    group.refresh_subscriptions()
    return group


def _member(image: records.GroupValue, member: records.Member) -> ClassicMember:
    return ClassicMember(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.session_timeout_ms,
        image.protocol_type,
        ((image.protocol or "", member.subscription),),
        member.assignment,
    )
