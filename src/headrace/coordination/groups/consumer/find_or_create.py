"""The consumer group of a joining member, found, created or upgraded from a classic group."""

from headrace.coordination.groups.consumer import find_members, leaving, migration
from headrace.coordination.groups.consumer.group import ConsumerGroup
from headrace.coordination.groups.context import ShardContext
from headrace.coordination.groups.modern import ending
from headrace.coordination.groups.modern.group_change import Turn


def open_group(shard: ShardContext, group_id: str, *, create: bool) -> Turn[ConsumerGroup]:
    """Return a turn (a set of changes) in the group.

    `create`: create a missing group, or upgrade a classic one. ApiError GROUP_ID_NOT_FOUND, also
    for a classic group that cannot be upgraded.
    """
    classic = shard.groups.get(group_id)
    if shard.modern.find(ConsumerGroup, group_id) is not None or not create:
        return Turn(shard, find_members.find(shard, group_id))
    if classic is None:
        group = ConsumerGroup(group_id)
        turn = Turn(shard, group)
        ending.enter(turn)
        return turn
    turn = migration.upgrade(shard, classic)
    turn.after(lambda: _sessions_run(shard, turn.group))
    return turn


def _sessions_run(shard: ShardContext, group: ConsumerGroup) -> None:
    for member in group.members.values():
        leaving.session_runs(shard, group, member)
