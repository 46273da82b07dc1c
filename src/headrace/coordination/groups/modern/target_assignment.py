"""The target assignment: who is to read what, made anew when the group's epoch has grown.

Made at most once in the kind's `assignment.interval.ms`, however many members come and go: a
thousand that join together cost a few assignments, not a thousand. The first one of a group is made
at once: nobody in it has anything yet. A large group's assignor works on a thread; its members go
on by what they have meanwhile.
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
from headrace.model.errors import ErrorCode

_logger = logging.getLogger(__name__)
AT_ONCE_MAX = 5_000
"""Subscriptions and partitions for which the loop waits: a few milliseconds."""

P = TypeVar("P")
G = TypeVar("G", bound=ModernGroup[Any, Any])


class Question(NamedTuple, Generic[P]):
    """What an assignor is asked."""

    size: int
    """Subscriptions and partitions."""
    work: Callable[[], Mapping[str, P]]
    """The assignor: each member's partitions. It may be called on a thread."""


Ask = Callable[[ShardContext, G], Question[P]]


def update(turn: Turn[G], ask: Ask[G, P]) -> None:
    """Bring the target to the group's epoch, now or when the interval is over."""
    shard, group = turn.shard, turn.group
    if group.epoch <= group.target_epoch or not group.members or group.is_assigning:
        return
    interval_ms = shard.setting_of(group, "assignment.interval.ms")
    wait_ms = group.target_timestamp_ms + interval_ms - shard.clock.wall_ms()
    if wait_ms <= 0:
        assign(turn, ask)
    elif not group.timers.is_armed(ASSIGN):
        # A clock that was put back must not hold assignments up.
        seconds = min(wait_ms, interval_ms) / 1000
        group.timers.arm(shard.deadlines, ASSIGN, "", seconds, partial(_due, shard, group, ask))


def _due(shard: ShardContext, group: G, ask: Ask[G, P]) -> None:
    group.timers.disarm(ASSIGN)
    if group.members and group.epoch > group.target_epoch and not group.is_assigning:
        turn = Turn(shard, group)
        assign(turn, ask)
        turn.finish(_not_waited_for)


def assign(turn: Turn[G], ask: Ask[G, P]) -> None:
    """Ask the assignor, here or on a thread, and write what differs from the present target."""
    shard, group = turn.shard, turn.group
    group.timers.disarm(ASSIGN)
    question = ask(shard, group)
    if _is_made_at_once(shard, group, question.size):
        _take(turn, question.work(), group.epoch)
        return
    # Not before what is decided in this turn is in the log.
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
    """Have the assignor work; one that meets a bug is logged, the next heartbeat tries again."""
    epoch = group.epoch
    group.is_assigning = True

    def done(given: Mapping[str, P] | BaseException) -> None:
        group.is_assigning = False
        if shard.modern.get(group.group_id) is not group:
            return  # another broker's now, or gone
        if isinstance(given, BaseException):
            _logger.error(
                "group %s: its assignor met a bug, its members keep what they have: please report "
                "it with this trace", group.group_id, exc_info=given,
            )  # fmt: skip
            return
        turn = Turn(shard, group)
        _take(turn, given, epoch)
        update(turn, ask)  # who came or went meanwhile is for the next one
        turn.finish(_not_waited_for)

    shard.run(question.work, done)


def _take(turn: Turn[ModernGroup[P, Any]], given: Mapping[str, P], epoch: int) -> None:
    """Write what differs from the present target, for those who are still there."""
    group = turn.group
    for member_id, partitions in given.items():
        if member_id in group.members and group.target.get(member_id) != partitions:
            turn.change(MemberTarget(member_id, partitions))
    turn.change(TargetEpoch(epoch, turn.shard.clock.wall_ms()))
    _logger.debug("group %s: target of epoch %d for %d members", group.group_id, epoch, len(given))


def _not_waited_for(error: ErrorCode | None) -> None:
    """Ignore what the log refused: the next heartbeat tries it again."""
