"""The target assignment of a modern group, recomputed when the group epoch has grown.

It is computed at most once per `assignment.interval.ms`: a thousand members that join together cost
a few assignments, not a thousand. A group's first one is computed at once, as no member has
partitions yet. For a large group the assignor runs on a thread, while members keep their current
partitions.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from headrace.coordination.groups.context import ShardContext
from headrace.coordination.groups.modern.changes import MemberTarget, TargetEpoch
from headrace.coordination.groups.modern.group import INITIAL_EPOCH, ModernGroup
from headrace.coordination.groups.modern.group_change import Turn
from headrace.coordination.groups.modern.timers import ASSIGN
from headrace.ports.callbacks import ignore_result

_logger = logging.getLogger(__name__)
AT_ONCE_MAX = 5_000
"""Subscriptions plus partitions up to which the assignor runs on the loop: a few milliseconds."""

P = TypeVar("P")
G = TypeVar("G", bound=ModernGroup[Any, Any])


class Question(NamedTuple, Generic[P]):
    """The assignor's work for one group."""

    size: int
    """Number of subscriptions plus partitions."""
    work: Callable[[], Mapping[str, P]]
    """Runs the assignor, possibly on a thread; returns each member's partitions."""


Ask = Callable[[ShardContext, G], Question[P]]


def update(turn: Turn[G], ask: Ask[G, P]) -> None:
    """Bring the target assignment to the group epoch, now or after the minimum interval."""
    shard, group = turn.shard, turn.group
    if group.epoch <= group.target_epoch or not group.members or group.is_assigning:
        return
    interval_ms = shard.setting_of(group, "assignment.interval.ms")
    wait_ms = group.target_timestamp_ms + interval_ms - shard.clock.wall_ms()
    if wait_ms <= 0:
        assign(turn, ask)
    elif not group.timers.is_armed(ASSIGN):
        # A wall clock that was set back must not delay assignments.
        seconds = min(wait_ms, interval_ms) / 1000
        group.timers.arm(shard.deadlines, ASSIGN, "", seconds, partial(_due, shard, group, ask))


def _due(shard: ShardContext, group: G, ask: Ask[G, P]) -> None:
    group.timers.disarm(ASSIGN)
    if group.members and group.epoch > group.target_epoch and not group.is_assigning:
        turn = Turn(shard, group)
        assign(turn, ask)
        # If it fails, the next heartbeat retries.
        turn.finish(ignore_result)


def assign(turn: Turn[G], ask: Ask[G, P]) -> None:
    """Run the assignor, on the loop or on a thread, and write the differences to the current
    target."""
    shard, group = turn.shard, turn.group
    group.timers.disarm(ASSIGN)
    question = ask(shard, group)
    if _is_made_at_once(shard, group, question.size):
        _take(turn, question.work(), group.epoch)
        return
    # Only after this turn's records are appended.
    turn.after(lambda: _assign_on_a_thread(shard, group, ask, question))


def _is_made_at_once(shard: ShardContext, group: ModernGroup[Any, Any], size: int) -> bool:
    return (
        size <= AT_ONCE_MAX
        or group.target_epoch <= INITIAL_EPOCH
        or not shard.setting_of(group, "assignor.offload.enable")
    )


def _assign_on_a_thread(
    shard: ShardContext, group: G, ask: Ask[G, P], question: Question[P]
) -> None:
    """Run the assignor on a thread; if it raises, log the error and let the next heartbeat
    retry."""
    epoch = group.epoch
    group.is_assigning = True

    def done(given: Mapping[str, P] | BaseException) -> None:
        group.is_assigning = False
        if shard.modern.get(group.group_id) is not group:
            return  # Another broker coordinates the group now, or it was deleted.
        if isinstance(given, BaseException):
            _logger.error(
                "group %s: the assignor failed, so members keep their partitions; please report "
                "this bug with its traceback", group.group_id, exc_info=given,
            )  # fmt: skip
            return
        turn = Turn(shard, group)
        _take(turn, given, epoch)
        update(turn, ask)  # Members that joined or left in between need another assignment.
        turn.finish(ignore_result)

    shard.run(question.work, done)


def _take(turn: Turn[ModernGroup[P, Any]], given: Mapping[str, P], epoch: int) -> None:
    """Write the members' targets that differ from the current ones; skip members that have left."""
    group = turn.group
    for member_id, partitions in given.items():
        if member_id in group.members and group.target.get(member_id) != partitions:
            turn.change(MemberTarget(member_id, partitions))
    turn.change(TargetEpoch(epoch, turn.shard.clock.wall_ms()))
    _logger.debug(
        "group %s: target assignment of epoch %d for %d members", group.group_id, epoch, len(given)
    )
