"""Creation and deletion of a modern group in its shard."""

from collections.abc import Sequence
from typing import Any

from headrace.coordination.groups.context import ShardContext
from headrace.coordination.groups.modern.group import ModernGroup
from headrace.coordination.groups.modern.group_change import Turn
from headrace.model.errors import ErrorCode
from headrace.ports.callbacks import Done
from headrace.shards.journal import KeyValue


def enter(turn: Turn[ModernGroup[Any, Any]]) -> None:
    """Add the turn's group to the shard; undone if the append fails."""
    shard, group = turn.shard, turn.group
    shard.modern[group.group_id] = group
    turn.also(lambda: shard.modern.pop(group.group_id, None))


def bury(
    shard: ShardContext,
    group: ModernGroup[Any, Any],
    done: Done[ErrorCode | None],
    also: Sequence[KeyValue] = (),
) -> None:
    """Delete a group without members, writing the records `also` with its tombstones.

    The group is removed at once, and restored if the append fails.
    """
    turn = Turn(shard, group)
    turn.write(*also)
    turn.write(*map(group.record, group.tombstones()))
    del shard.modern[group.group_id]
    turn.also(lambda: shard.modern.setdefault(group.group_id, group))
    turn.after(group.timers.end)
    turn.finish(done)
