"""Handling of a heartbeat: decide, append, respond once committed."""

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from headrace.coordination.groups.context import ShardContext
from headrace.coordination.groups.modern.group import ModernGroup
from headrace.coordination.groups.modern.group_change import Turn
from headrace.model.errors import ApiError, ErrorCode
from headrace.ports.callbacks import Done

A = TypeVar("A")
G = TypeVar("G", bound=ModernGroup[Any, Any])


class HeartbeatAnswer(NamedTuple, Generic[A]):
    """A heartbeat response; `assigned` None: the assignment is unchanged."""

    error: ErrorCode
    message: str | None = None
    member_id: str | None = None
    epoch: int = 0
    interval_ms: int = 0
    assigned: A | None = None


def answer(
    turn: Turn[G],
    decide: Callable[[Turn[G]], HeartbeatAnswer[A]],
    done: Done[HeartbeatAnswer[A]],
) -> None:
    """Call `done` with the response of `decide` once its changes in `turn` are committed.

    If `decide` raises ApiError, the turn is undone and `done` gets the error.
    """
    try:
        decided = decide(turn)
    except ApiError as error:
        turn.take_back()
        done(HeartbeatAnswer(error.code, error.message))
        return

    def settled(error: ErrorCode | None) -> None:
        done(decided if error is None else HeartbeatAnswer(error))

    turn.finish(settled)


def interval_ms(shard: ShardContext, group: ModernGroup[Any, Any], *, settles: bool) -> int:
    """Return the milliseconds until a member's next heartbeat.

    `settles`: the member waits for an assignment, so a shorter interval applies.
    """
    usual_ms = shard.setting_of(group, "heartbeat.interval.ms")
    return min(usual_ms, shard.limits.consumer_settling_interval_ms) if settles else usual_ms
