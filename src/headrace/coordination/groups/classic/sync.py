"""SyncGroup of the classic protocol: the leader sends the assignment, other members wait for it."""

from functools import partial

from headrace.coordination.groups import records
from headrace.coordination.groups.classic import rebalance
from headrace.coordination.groups.classic.group import ClassicGroup
from headrace.coordination.groups.classic.member import Member
from headrace.coordination.groups.classic.states import GroupState
from headrace.coordination.groups.context import ShardContext
from headrace.coordination.groups.messages import SyncAnswer, SyncRequest
from headrace.model.errors import ApiError, ErrorCode
from headrace.ports.callbacks import Done

_S = GroupState


def sync(shard: ShardContext, request: SyncRequest, done: Done[SyncAnswer]) -> None:
    """Handle SyncGroup; call `done` once: when the leader's assignment is committed, or on an
    error."""
    group = shard.groups.get(request.group_id)
    if group is None:
        done(SyncAnswer(ErrorCode.UNKNOWN_MEMBER_ID))
        return
    try:
        member = group.check_member(request.member_id, request.instance_id)
    except ApiError as error:
        done(SyncAnswer(error.code))
        return
    if request.generation != group.generation:
        done(SyncAnswer(ErrorCode.ILLEGAL_GENERATION))
    elif _differs(request.protocol_type, group.protocol_type) or _differs(
        request.protocol_name, group.protocol_name
    ):
        done(SyncAnswer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    elif group.state is _S.PREPARING_REBALANCE:
        done(SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS))
    elif group.state is _S.COMPLETING_REBALANCE:
        _wait(shard, group, member, request, done)
    else:
        _heard_from(group, member)
        done(
            SyncAnswer(ErrorCode.NONE, member.assignment, group.protocol_type, group.protocol_name)
        )


def _differs(asked: str | None, present: str | None) -> bool:
    """Return whether two names differ; None, sent by older versions, matches anything."""
    return asked is not None and present is not None and asked != present


def _wait(
    shard: ShardContext,
    group: ClassicGroup,
    member: Member,
    request: SyncRequest,
    done: Done[SyncAnswer],
) -> None:
    former, member.sync_done = member.sync_done, done
    if former is not None:
        former(SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS))
    _heard_from(group, member)
    if group.leader != member.member_id or group.assigned_generation == group.generation:
        # A repeated SyncGroup of the leader waits for the first one: a generation has one
        # assignment, and the log must hold the assignment that the members received.
        return
    group.assigned_generation = group.generation
    given = dict(request.assignments)
    assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
    stored = partial(_stored, shard, group, group.generation, assignments)
    shard.journal.append_now([records.group_metadata(group, assignments)], stored)


def _heard_from(group: ClassicGroup, member: Member) -> None:
    group.pending_syncs.pop(member.member_id, None)
    if not group.pending_syncs and group.sync_deadline is not None:
        group.sync_deadline.cancel()


def _stored(
    shard: ShardContext,
    group: ClassicGroup,
    generation: int,
    assignments: dict[str, bytes],
    error: ErrorCode | None,
) -> None:
    """Answer the generation with its committed assignment; start a rebalance if the append
    failed."""
    if group.state is not _S.COMPLETING_REBALANCE or group.generation != generation:
        return  # Members changed in between, so another generation follows.
    if error is not None:
        group.assign({})
        rebalance.propagate(shard, group, error)
        rebalance.rebalance_or_complete(shard, group)
        return
    group.assign(assignments)
    group.transition(_S.STABLE, shard.clock.wall_ms())
    rebalance.propagate(shard, group, ErrorCode.NONE)
