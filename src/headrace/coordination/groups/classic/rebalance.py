"""Rebalance of a classic group: wait for all members or the timeout, then begin a generation.

Triggers: a member that joins, leaves, expires or changes its subscription (`join`, `membership`), a
leader that reassigns, and timers.
"""

from functools import partial

from headrace.coordination.groups import records
from headrace.coordination.groups.classic.group import ClassicGroup
from headrace.coordination.groups.classic.member import ClassicMember
from headrace.coordination.groups.classic.states import NEXT, GroupState
from headrace.coordination.groups.context import ShardContext
from headrace.coordination.groups.messages import JoinAnswer, SyncAnswer
from headrace.model.errors import ErrorCode
from headrace.ports.callbacks import ignore_result

_S = GroupState


def rebalance_or_complete(shard: ShardContext, group: ClassicGroup) -> None:
    """Start a rebalance if the state allows one, else complete the running one if all have
    joined."""
    if _S.PREPARING_REBALANCE in NEXT[group.state]:
        prepare(shard, group)
    else:
        complete_if_all_joined(shard, group)


def prepare(shard: ShardContext, group: ClassicGroup) -> None:
    """Enter PreparingRebalance; members learn of it by their next heartbeat and rejoin."""
    if group.state is _S.COMPLETING_REBALANCE:
        group.assign({})
        propagate(shard, group, ErrorCode.REBALANCE_IN_PROGRESS)
    end_sync_phase(group)
    initial = group.state is _S.EMPTY
    group.transition(_S.PREPARING_REBALANCE, shard.clock.wall_ms())
    if initial:
        # The first members of a group tend to start together, so wait for more.
        delay = shard.limits.initial_rebalance_delay_ms
        remaining = max(group.rebalance_timeout_ms - delay, 0)
        _wait_initially(shard, group, delay, remaining)
    elif group.all_joined:
        complete_join(shard, group)
    else:
        _wait_for_members(shard, group)


def complete_if_all_joined(shard: ShardContext, group: ClassicGroup) -> None:
    """Begin the next generation if all members have joined and no initial delay is running."""
    if group.state is not _S.PREPARING_REBALANCE or group.previous_state is _S.EMPTY:
        return
    if group.all_joined:
        complete_join(shard, group)


def complete_join(shard: ShardContext, group: ClassicGroup) -> None:
    """Begin the next generation with the members that have joined.

    Dynamic members that did not rejoin are removed; static ones stay until their session expires
    (KIP-345).
    """
    if group.join_deadline is not None:
        group.join_deadline.cancel()
    for member in list(group.members.values()):
        if not member.awaits_join and member.instance_id is None:
            group.remove(member.member_id)
    if group.members and not group.elect_joined_leader():
        _wait_for_members(shard, group)
        return
    group.next_generation(shard.clock.wall_ms())
    if group.state is _S.EMPTY:
        # If it fails, a restart restores the old generation.
        shard.journal.append_now([records.group_metadata(group, {})], ignore_result)
    else:
        _begin_generation(shard, group)


def _begin_generation(shard: ShardContext, group: ClassicGroup) -> None:
    deadline = group.sync_deadline
    if deadline is None:
        deadline = group.sync_deadline = shard.deadlines.deadline(
            partial(_sync_time_is_up, shard, group)
        )
    deadline.set(group.rebalance_timeout_ms / 1000)
    for member in group.members.values():
        member.is_new = False
        group.pending_syncs[member.member_id] = None
        keep_alive(shard, group, member)
    for member in list(group.members.values()):
        leads = member.member_id == group.leader
        group.answer_join(member, group.join_answer(member.member_id, with_members=leads))


def keep_alive(
    shard: ShardContext, group: ClassicGroup, member: ClassicMember, timeout_ms: int | None = None
) -> None:
    """Restart the member's session timer: with `timeout_ms`, else with its session timeout."""
    if member.session is None:
        member.session = shard.deadlines.deadline(partial(_session_ends, shard, group, member))
    member.session.set((member.session_timeout_ms if timeout_ms is None else timeout_ms) / 1000)


def _session_ends(shard: ShardContext, group: ClassicGroup, member: ClassicMember) -> None:
    if member.is_alive_by_waiting:
        return  # The timer is set again when the waiting request is answered.
    remove_member(shard, group, member)


def remove_member(shard: ShardContext, group: ClassicGroup, member: ClassicMember) -> None:
    """Remove an expired member and rebalance the others."""
    group.remove(member.member_id)
    if group.state in (_S.STABLE, _S.COMPLETING_REBALANCE):
        rebalance_or_complete(shard, group)
    elif group.state is _S.PREPARING_REBALANCE and group.all_joined:
        complete_join(shard, group)


def propagate(shard: ShardContext, group: ClassicGroup, error: ErrorCode) -> None:
    """Answer every waiting SyncGroup with the member's assignment, or with `error`."""
    named = error is ErrorCode.NONE
    for member in list(group.members.values()):
        answer = SyncAnswer(
            error,
            member.assignment,
            group.protocol_type if named else None,
            group.protocol_name if named else None,
        )
        if group.answer_sync(member, answer):
            # The session timer may have fired while the member waited: start it again.
            keep_alive(shard, group, member)


def end_sync_phase(group: ClassicGroup) -> None:
    """Cancel the timeout for members' SyncGroup requests."""
    if group.sync_deadline is not None:
        group.sync_deadline.cancel()


def bury(group: ClassicGroup, now_ms: int, error: ErrorCode) -> None:
    """Make the group Dead: answer waiting requests with `error` and cancel all timers."""
    group.end_timers()
    group.transition(_S.DEAD, now_ms)
    for member in list(group.members.values()):
        group.answer_join(member, JoinAnswer(error, member.member_id))
        group.answer_sync(member, SyncAnswer(error))


def _wait_for_members(shard: ShardContext, group: ClassicGroup) -> None:
    _join_deadline(shard, group, partial(complete_join, shard, group), group.rebalance_timeout_ms)


def _wait_initially(
    shard: ShardContext, group: ClassicGroup, delay_ms: int, remaining_ms: int
) -> None:
    go_on = partial(_initial_delay_is_over, shard, group, delay_ms, remaining_ms)
    _join_deadline(shard, group, go_on, delay_ms)


def _initial_delay_is_over(
    shard: ShardContext, group: ClassicGroup, delay_ms: int, remaining_ms: int
) -> None:
    if group.new_member_added and remaining_ms:
        group.new_member_added = False
        delay = min(shard.limits.initial_rebalance_delay_ms, remaining_ms)
        _wait_initially(shard, group, delay, max(remaining_ms - delay_ms, 0))
    else:
        complete_join(shard, group)


def _join_deadline(
    shard: ShardContext, group: ClassicGroup, callback: "partial[None]", wait_ms: int
) -> None:
    deadline = group.join_deadline
    if deadline is None:
        deadline = group.join_deadline = shard.deadlines.deadline(callback)
    deadline.callback = callback
    deadline.set(wait_ms / 1000)


def _sync_time_is_up(shard: ShardContext, group: ClassicGroup) -> None:
    for member_id in list(group.pending_syncs):
        group.remove(member_id)
    prepare(shard, group)
