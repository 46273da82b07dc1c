"""JoinGroup of the classic protocol: admission of members, and the rebalances that it triggers."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from headrace.coordination.groups import records
from headrace.coordination.groups.classic import rebalance
from headrace.coordination.groups.classic.group import ClassicGroup
from headrace.coordination.groups.classic.member import Member
from headrace.coordination.groups.classic.states import GroupState
from headrace.coordination.groups.context import ShardContext
from headrace.coordination.groups.messages import UNKNOWN_MEMBER, JoinAnswer, JoinRequest
from headrace.model.errors import ApiError, ErrorCode
from headrace.ports.callbacks import Done

_S = GroupState


def join(shard: ShardContext, request: JoinRequest, done: Done[JoinAnswer]) -> None:
    """Handle JoinGroup; call `done` once, now or when the next generation begins."""
    limits = shard.limits
    timeout = request.session_timeout_ms
    if not limits.min_session_timeout_ms <= timeout <= limits.max_session_timeout_ms:
        done(JoinAnswer(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id))
        return
    group = shard.groups.get(request.group_id)
    if group is None:
        if request.member_id != UNKNOWN_MEMBER:
            done(JoinAnswer(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
            return
        try:
            group = _new_group(shard, request.group_id)
        except ApiError as error:
            done(JoinAnswer(error.code, request.member_id))
            return
    if not _has_room(shard, group, request.member_id):
        group.remove(request.member_id)
        done(JoinAnswer(ErrorCode.GROUP_MAX_SIZE_REACHED))
        rebalance.complete_if_all_joined(shard, group)
    elif not group.supports(request.protocol_type, request.protocols):
        done(JoinAnswer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id))
    elif request.member_id == UNKNOWN_MEMBER:
        _join_new(shard, group, request, done)
    elif request.member_id in group.pending_joins:
        _add(shard, group, request, request.member_id, done)
    else:
        _rejoin(shard, group, request, done)


def _new_group(shard: ShardContext, group_id: str) -> ClassicGroup:
    """Create an empty group, appended to the log first. ApiError if the append fails."""
    group = ClassicGroup(group_id, shard.clock.wall_ms())
    failed: list[ErrorCode] = []

    def appended(error: ErrorCode | None) -> None:
        if error is not None:
            failed.append(error)

    shard.journal.append_now([records.group_metadata(group, {})], appended)
    if failed:
        raise ApiError(failed[0])
    shard.groups[group_id] = group
    return group


def _has_room(shard: ShardContext, group: ClassicGroup, member_id: str) -> bool:
    """Return whether group.max.size leaves room for the member.

    During a rebalance, members that have joined have priority: a group that exceeds a lowered limit
    loses those that join last.
    """
    limit = shard.limits.max_size
    if group.state is _S.EMPTY:
        return True
    member = group.members.get(member_id)
    if group.state is _S.PREPARING_REBALANCE:
        return (member is not None and member.awaits_join) or group.awaiting_join < limit
    return member is not None or len(group.members) < limit


def _join_new(
    shard: ShardContext, group: ClassicGroup, request: JoinRequest, done: Done[JoinAnswer]
) -> None:
    if request.instance_id is not None:
        new_id = shard.new_member_id(request.instance_id)
        old_id = group.static_members.get(request.instance_id)
        if old_id is None:
            _add(shard, group, request, new_id, done)
        else:
            _replace_static(shard, group, request, old_id, new_id, done)
        return
    new_id = shard.new_member_id(request.client_id)
    if not request.needs_member_id:
        _add(shard, group, request, new_id, done)
        return
    if len(group.pending_joins) >= shard.limits.pending_joins_max:
        done(JoinAnswer(ErrorCode.GROUP_MAX_SIZE_REACHED))
        return
    deadline = shard.deadlines.deadline(partial(_never_came_back, shard, group, new_id))
    group.pending_joins[new_id] = deadline
    deadline.set(request.session_timeout_ms / 1000)
    done(JoinAnswer(ErrorCode.MEMBER_ID_REQUIRED, new_id))


def _never_came_back(shard: ShardContext, group: ClassicGroup, member_id: str) -> None:
    group.remove(member_id)
    if group.state is _S.PREPARING_REBALANCE and group.all_joined:
        rebalance.complete_join(shard, group)


def _add(
    shard: ShardContext,
    group: ClassicGroup,
    request: JoinRequest,
    member_id: str,
    done: Done[JoinAnswer],
) -> None:
    member = _member(request, member_id)
    member.is_new = True
    member.join_done = done
    if group.state is _S.PREPARING_REBALANCE and group.previous_state is _S.EMPTY:
        group.new_member_added = True
    group.add(member)
    rebalance.keep_alive(shard, group, member, shard.limits.new_member_join_timeout_ms)
    rebalance.rebalance_or_complete(shard, group)


def _member(request: JoinRequest, member_id: str) -> Member:
    return Member(
        member_id,
        request.instance_id,
        request.client_id,
        request.client_host,
        request.rebalance_timeout_ms,
        request.session_timeout_ms,
        request.protocol_type,
        request.protocols,
    )


def _rejoin(
    shard: ShardContext, group: ClassicGroup, request: JoinRequest, done: Done[JoinAnswer]
) -> None:
    """Let a known member join again: same protocols, new protocols, or the leader reassigning."""
    try:
        member = group.check_member(request.member_id, request.instance_id)
    except ApiError as error:
        done(JoinAnswer(error.code, request.member_id))
        return
    leads = group.leader == member.member_id
    unchanged = member.protocols == request.protocols
    if group.state is _S.COMPLETING_REBALANCE and unchanged:
        # The response to its first JoinGroup was lost: send the same one again.
        done(group.join_answer(member.member_id, with_members=leads))
    elif group.state is _S.STABLE and unchanged and not leads:
        done(group.join_answer(member.member_id, with_members=False))
    else:
        _update(group, member, request, done)
        rebalance.rebalance_or_complete(shard, group)


def _update(
    group: ClassicGroup, member: Member, request: JoinRequest, done: Done[JoinAnswer]
) -> None:
    group.update(member, request.protocols)
    member.rebalance_timeout_ms = request.rebalance_timeout_ms
    member.session_timeout_ms = request.session_timeout_ms
    group.await_join(member, done)


def _replace_static(
    shard: ShardContext,
    group: ClassicGroup,
    request: JoinRequest,
    old_id: str,
    new_id: str,
    done: Done[JoinAnswer],
) -> None:
    """Give a returning static member its previous place under a new member id."""
    old = group.members[old_id]
    leader_before = group.leader
    member = replace(
        old, member_id=new_id, is_new=False, join_done=None, sync_done=None, session=None
    )
    group.replace_static(request.instance_id or "", old_id, member)
    _update(group, member, request, done)
    rebalance.keep_alive(shard, group, member)
    if group.state is _S.COMPLETING_REBALANCE:
        # The leader may be computing an assignment for the old member id.
        rebalance.prepare(shard, group)
    elif group.state is not _S.STABLE:
        rebalance.complete_if_all_joined(shard, group)
    elif group.selected_protocol() != group.protocol_name:
        rebalance.rebalance_or_complete(shard, group)
    else:
        revert = partial(_revert_static, shard, group, old, member)
        stored = partial(_static_stored, group, request, member, leader_before, revert)
        assignments = {member.member_id: member.assignment for member in group.members.values()}
        shard.journal.append_now([records.group_metadata(group, assignments)], stored)


def _static_stored(
    group: ClassicGroup,
    request: JoinRequest,
    member: Member,
    leader_before: str | None,
    revert: Callable[[], None],
    error: ErrorCode | None,
) -> None:
    """Answer the returning static member once its new id is committed, or failed. No rebalance."""
    if error is not None:
        group.answer_join(member, JoinAnswer(error))
        revert()
        return
    leads = group.leader == member.member_id
    if request.skips_assignment:
        answer = group.join_answer(member.member_id, with_members=leads, skip_assignment=leads)
    else:
        # Before v9 a client that finds itself the leader would reassign, although no other member
        # joins. The response names its old member id as the leader.
        answer = group.join_answer(member.member_id, with_members=False)
        answer = answer._replace(leader=leader_before or "")
    group.answer_join(member, answer)


def _revert_static(shard: ShardContext, group: ClassicGroup, old: Member, new: Member) -> None:
    if group.members.get(new.member_id) is not new:
        return
    group.update(new, old.protocols)
    group.replace_static(old.instance_id or "", new.member_id, old)
    rebalance.keep_alive(shard, group, old)
