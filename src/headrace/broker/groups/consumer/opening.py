"""The group a joining member finds, or founds."""

from headrace.broker.groups.consumer import members, membership, migrate
from headrace.broker.groups.consumer.group import ConsumerGroup
from headrace.broker.groups.consumer.turn import Turn
from headrace.broker.groups.context import ShardContext


def open_group(shard: ShardContext, group_id: str, *, create: bool) -> Turn:
    """A turn in the group; with `create` it is made, or made of a classic one, where need be.

    ApiError GROUP_ID_NOT_FOUND, also for a classic group that cannot be upgraded.
    """
    classic = shard.groups.get(group_id)
    if group_id in shard.consumers or not create:
        return Turn(shard, members.find(shard, group_id))
    if classic is None:
        group = ConsumerGroup(group_id)
        turn = Turn(shard, group)
        migrate.enter(turn)
        return turn
    turn = migrate.upgrade(shard, classic)
    turn.after(lambda: _sessions_run(shard, turn.group))
    return turn


def _sessions_run(shard: ShardContext, group: ConsumerGroup) -> None:
    for member in group.members.values():
        membership.session_runs(shard, group, member)
