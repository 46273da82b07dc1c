"""Fencing: remove a member of a modern group that missed a deadline."""

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from headrace.coordination.groups.context import ShardContext
from headrace.coordination.groups.modern.group import ModernGroup
from headrace.coordination.groups.modern.group_change import Turn
from headrace.model.errors import ErrorCode

_logger = logging.getLogger(__name__)
G = TypeVar("G", bound=ModernGroup[Any, Any])


def fence(
    shard: ShardContext,
    group: G,
    member_id: str,
    because: str,
    *,
    remove: Callable[[Turn[G]], None],
    again: Callable[[], None],
) -> None:
    """Remove the member with `remove`; call `again` if the append fails.

    `because`: the reason for the log line.
    """
    if member_id not in group.members or shard.modern.get(group.group_id) is not group:
        group.timers.end_of(member_id)
        return
    _logger.info("group %s: member %s is fenced: %s", group.group_id, member_id, because)
    turn = Turn(shard, group)
    remove(turn)

    def settled(error: ErrorCode | None) -> None:
        if error is not None and member_id in group.members:
            again()

    turn.finish(settled)
