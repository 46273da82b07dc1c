"""Kafka's members of a group, which another protocol's clients may not join."""

from typing import TYPE_CHECKING

from headrace.coordination.groups import commit

if TYPE_CHECKING:
    from headrace.coordination.groups.context import ShardContext


def has_kafka_members(shard: "ShardContext", group_id: str) -> bool:
    """Return whether clients of Kafka's are members of a group, whichever protocol they use."""
    classic = shard.groups.get(group_id)
    if classic is not None and commit.is_occupied(classic):
        return True
    modern = shard.modern.get(group_id)
    return modern is not None and bool(modern.members)
