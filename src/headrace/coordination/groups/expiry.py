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
from headrace.ports.callbacks import ignore_result

_S = GroupState


def expire(shard: ShardContext) -> None:
    """Write tombstones for expired offsets, and for empty groups that have no offsets left.

    If a write fails, the next check finds the offset or group again.
    """
    now_ms = shard.clock.wall_ms()
    groups: list[ClassicGroup | ConsumerGroup] = [*shard.groups.values()]
    groups += shard.modern.all_of(ConsumerGroup)
    for group in groups:
        if isinstance(group, ClassicGroup) and not _may_expire(group):
            continue
        places = list(shard.offsets.places(group.group_id))
        ended = [place for place in places if _has_ended(shard, group, place, now_ms)]
        if len(ended) < len(places) or commit.is_occupied(group):
            commit.forget(shard, ended, ignore_result)
        elif group.group_id not in shard.commits_in_flight:
            commit.bury_with_offsets(shard, group, ended, ignore_result)


def _may_expire(group: ClassicGroup) -> bool:
    if group.pending_joins:
        return False
    if group.protocol_type is None or group.state is _S.EMPTY:
        return True
    return group.state is _S.STABLE and group.is_consumer


def _has_ended(
    shard: ShardContext, group: ClassicGroup | ConsumerGroup, place: Place, now_ms: int
) -> bool:
    committed = shard.offsets.get(place)
    if committed is None or shard.offsets.is_unstable(place):
        return False
    if commit.is_occupied(group) and group.subscribes(place[1]):
        return False
    if committed.expires_ms >= 0:
        return now_ms >= committed.expires_ms
    return now_ms - _counts_from(group, committed) >= shard.limits.offsets_retention_ms


def _counts_from(group: ClassicGroup | ConsumerGroup, committed: Committed) -> int:
    """Return the time in ms since 1970 at which the retention of a committed offset starts."""
    if isinstance(group, ConsumerGroup) or group.protocol_type is None:
        return committed.committed_ms
    if group.state is _S.EMPTY:
        return max(group.state_since_ms, committed.committed_ms)
    return committed.committed_ms
