"""Expiry of committed offsets (KIP-211), and of groups without any.

Retention of a group's offsets starts when its last member leaves. In a Stable group it covers
topics without subscribers. In a group that only commits offsets, and in a consumer group of
KIP-848, it starts at each commit.
"""

from headrace.coordination.groups import commit
from headrace.coordination.groups.classic.group import ClassicGroup
from headrace.coordination.groups.classic.states import GroupState
from headrace.coordination.groups.committed_offsets import Committed, Place
from headrace.coordination.groups.consumer.group import ConsumerGroup
from headrace.coordination.groups.context import ShardContext
from headrace.model.errors import ErrorCode

_S = GroupState


def expire(shard: ShardContext) -> None:
    """Write tombstones for expired offsets, and for empty groups that have no offsets left."""
    now_ms = shard.clock.wall_ms()
    for group in list(shard.groups.values()):
        if not _may_expire(group):
            continue
        places = list(shard.offsets.places(group.group_id))
        ended = [place for place in places if _has_ended(shard, group, place, now_ms)]
        if len(ended) < len(places) or group.state is not _S.EMPTY:
            commit.forget(shard, ended, _not_waited_for)
        elif not _is_committing(shard, group.group_id):
            commit.bury_with_offsets(shard, group, ended, _not_waited_for)
    for consumers in shard.modern.all_of(ConsumerGroup):
        places = list(shard.offsets.places(consumers.group_id))
        ended = [
            place for place in places if _consumer_offset_has_ended(shard, consumers, place, now_ms)
        ]
        if len(ended) < len(places) or consumers.members:
            commit.forget(shard, ended, _not_waited_for)
        elif not _is_committing(shard, consumers.group_id):
            commit.bury_with_offsets(shard, consumers, ended, _not_waited_for)


def _is_committing(shard: ShardContext, group_id: str) -> bool:
    """Return whether the group may have offsets soon: by an open transaction or a commit in
    flight."""
    return group_id in shard.commits_in_flight or shard.offsets.in_transaction(group_id)


def _may_expire(group: ClassicGroup) -> bool:
    if group.pending_joins:
        return False
    if group.protocol_type is None or group.state is _S.EMPTY:
        return True
    return group.state is _S.STABLE and group.is_consumer and group.subscribed is not None


def _has_ended(shard: ShardContext, group: ClassicGroup, place: Place, now_ms: int) -> bool:
    committed = shard.offsets.get(place)
    if committed is None or shard.offsets.is_unstable(place):
        return False
    if group.state is not _S.EMPTY and group.subscribes(place[1]):
        return False
    if committed.expires_ms >= 0:
        return now_ms >= committed.expires_ms
    return now_ms - _counts_from(group, committed) >= shard.limits.offsets_retention_ms


def _consumer_offset_has_ended(
    shard: ShardContext, group: ConsumerGroup, place: Place, now_ms: int
) -> bool:
    committed = shard.offsets.get(place)
    if committed is None or shard.offsets.is_unstable(place) or group.subscribes(place[1]):
        return False
    if committed.expires_ms >= 0:
        return now_ms >= committed.expires_ms
    return now_ms - committed.committed_ms >= shard.limits.offsets_retention_ms


def _counts_from(group: ClassicGroup, committed: Committed) -> int:
    if group.protocol_type is not None and group.state is _S.EMPTY and group.state_since_ms >= 0:
        return max(group.state_since_ms, committed.committed_ms)
    return committed.committed_ms


def _not_waited_for(error: ErrorCode | None) -> None:
    """Ignore a failed write: the next check finds the offset or group again."""
