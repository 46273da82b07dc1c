"""Members of a consumer group that use the classic protocol.

JoinGroup moves such a member one step towards its target assignment, and SyncGroup returns its
current one. Heartbeat returns REBALANCE_IN_PROGRESS whenever another step is due.
"""

from collections.abc import Sequence

from headrace.coordination.groups.classic.subscription import CONSUMER_PROTOCOL
from headrace.coordination.groups.consumer import (
    advance_member,
    find_members,
    leaving,
    migration,
    subscriptions,
    target_assignment,
)
from headrace.coordination.groups.consumer.group import ConsumerGroup, waits_for_release
from headrace.coordination.groups.consumer.model import (
    ClassicPart,
    Member,
    MemberState,
    Subscription,
)
from headrace.coordination.groups.context import ShardContext
from headrace.coordination.groups.messages import (
    UNKNOWN_MEMBER,
    JoinAnswer,
    JoinRequest,
    Leaver,
    Left,
    SyncAnswer,
    SyncRequest,
)
from headrace.coordination.groups.modern.group_change import Turn
from headrace.coordination.groups.modern.timers import JOIN, SYNC
from headrace.model.errors import ApiError, ErrorCode, Malformed
from headrace.ports.callbacks import Done, ignore_result
from headrace.wire.kafka import consumer_protocol

_M = MemberState


def join(
    shard: ShardContext, group: ConsumerGroup, request: JoinRequest, done: Done[JoinAnswer]
) -> None:
    """Answer JoinGroup once its changes are committed."""
    turn = Turn(shard, group)
    member_id = request.member_id or shard.new_member_id(request.instance_id or request.client_id)
    try:
        _check_join(shard, group, request, member_id)
        member = _join(turn, request, member_id)
    except ApiError as error:
        turn.take_back()
        done(JoinAnswer(error.code, request.member_id))
        return
    if request.member_id == UNKNOWN_MEMBER and member is None:
        done(JoinAnswer(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        return
    epoch = 0 if member is None else member.standing.epoch
    name = request.protocols[0][0]

    def settled(error: ErrorCode | None) -> None:
        if error is not None:
            done(JoinAnswer(error, request.member_id))
        else:
            done(JoinAnswer(ErrorCode.NONE, member_id, epoch, CONSUMER_PROTOCOL, name))

    turn.finish(settled)


def _check_join(
    shard: ShardContext, group: ConsumerGroup, request: JoinRequest, member_id: str
) -> None:
    limits = shard.limits
    session_ms = request.session_timeout_ms
    if not limits.min_session_timeout_ms <= session_ms <= limits.max_session_timeout_ms:
        raise ApiError(ErrorCode.INVALID_SESSION_TIMEOUT)
    find_members.check_room(shard, group, member_id)
    names = {name for name, _ in request.protocols}
    for member in group.members.values():
        part = member.subscription.classic
        if part is not None and member.member_id != member_id:
            names &= {name for name, _ in part.protocols}
    if request.protocol_type != CONSUMER_PROTOCOL or not names:
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _join(turn: Turn[ConsumerGroup], request: JoinRequest, member_id: str) -> Member | None:
    """Return the member after its step; None if it must first rejoin with its new member id."""
    shard, group = turn.shard, turn.group
    unknown = request.member_id == UNKNOWN_MEMBER
    if unknown and request.instance_id is None and request.needs_member_id:
        return None
    holder = group.static_member(request.instance_id)
    present = find_members.take_in(
        turn,
        member_id,
        request.instance_id,
        joins=unknown or request.instance_id is None,
        replaces=lambda _: None,
    )
    before = None if present is None else present.subscription
    asked, after = _asked(request, before)
    changed = subscriptions.take(turn, member_id, before, after)
    subscriptions.refresh(turn, changed)
    if holder is not None and not holder.is_classic and migration.may_downgrade(shard, group, ()):
        # The last member of the newer protocol has come back as a classic member.
        migration.downgrade(turn, ())
        return group.members[member_id]
    target_assignment.update(turn)
    owned = migration.by_id(shard.image(), asked.owned)
    member = advance_member.step(turn, group.members[member_id], owned, changed=changed)
    group.timers.disarm(JOIN, member_id)
    leaving.session_runs(shard, group, member)
    leaving.sync_runs(shard, group, member)
    return member


def _asked(
    request: JoinRequest, before: Subscription | None
) -> tuple[consumer_protocol.EmbeddedSubscription, Subscription]:
    try:
        asked = consumer_protocol.read_subscription(request.protocols[0][1])
    except Malformed as error:
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(error)) from None
    present = before or Subscription()
    return asked, Subscription(
        request.instance_id or present.instance_id,
        asked.rack_id or present.rack_id,
        request.client_id,
        request.client_host,
        asked.topics,
        "",
        request.rebalance_timeout_ms,
        None,
        ClassicPart(request.session_timeout_ms, request.protocols),
    )


def sync(
    shard: ShardContext, group: ConsumerGroup, request: SyncRequest, done: Done[SyncAnswer]
) -> None:
    """Answer SyncGroup with the member's current assignment, once that is committed."""
    try:
        member, part = _member(group, request.member_id, request.instance_id)
        _check_sync(member, part, request)
    except ApiError as error:
        done(SyncAnswer(error.code))
        return
    if _is_behind(group, member) and member.standing.state is not _M.UNREVOKED_PARTITIONS:
        leaving.join_runs(shard, group, member)
        done(SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS))
        return
    given = {topic: frozenset(parts) for topic, parts in member.standing.assigned.items()}
    assignment = consumer_protocol.assignment(
        consumer_protocol.version_of(part.protocols[0][1]), migration.by_name(shard.image(), given)
    )

    def settled(error: ErrorCode | None) -> None:
        if error is not None:
            done(SyncAnswer(error))
            return
        group.timers.disarm(SYNC, member.member_id)
        done(SyncAnswer(ErrorCode.NONE, assignment, request.protocol_type, request.protocol_name))

    leaving.session_runs(shard, group, member)
    Turn(shard, group).finish(settled)


def _check_sync(member: Member, part: ClassicPart, request: SyncRequest) -> None:
    if request.generation != member.standing.epoch:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)
    name = part.protocols[0][0]
    if request.protocol_type not in (None, CONSUMER_PROTOCOL) or request.protocol_name not in (
        None,
        name,
    ):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> tuple[Member, ClassicPart]:
    """Return a member and its classic part; ApiError UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
    if instance_id is None:
        member = group.member(member_id)
    else:
        holder = group.static_member(instance_id)
        member = find_members.check_instance(holder, member_id, instance_id)
    part = member.subscription.classic
    if part is None:
        raise ApiError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol."
        )
    return member, part


def _is_behind(group: ConsumerGroup, member: Member) -> bool:
    return member.standing.epoch < group.target_epoch


def heartbeat(
    shard: ShardContext,
    group: ConsumerGroup,
    member_id: str,
    instance_id: str | None,
    generation: int,
) -> ErrorCode:
    """Answer Heartbeat: REBALANCE_IN_PROGRESS if the member must rejoin for its next step."""
    try:
        member, _ = _member(group, member_id, instance_id)
    except ApiError as error:
        return error.code
    if generation != member.standing.epoch:
        return ErrorCode.ILLEGAL_GENERATION
    leaving.session_runs(shard, group, member)
    turn = Turn(shard, group)
    subscriptions.refresh(turn, False)
    target_assignment.update(turn)
    # If it fails, a later request or timeout repeats the change.
    turn.finish(ignore_result)
    state = member.standing.state
    if (
        _is_behind(group, member)
        or state is _M.UNREVOKED_PARTITIONS
        or (state is _M.UNRELEASED_PARTITIONS and not waits_for_release(group, member))
    ):
        leaving.join_runs(shard, group, member)
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _leaver(group: ConsumerGroup, member_id: str, instance_id: str | None) -> Member:
    """Return the leaving member by instance or member id; ApiError UNKNOWN_MEMBER_ID or
    FENCED_INSTANCE_ID."""
    if instance_id is None:
        return group.member(member_id)
    holder = group.static_member(instance_id)
    if holder is not None and member_id == UNKNOWN_MEMBER:
        return holder
    return find_members.check_instance(holder, member_id, instance_id)


def leave(shard: ShardContext, group: ConsumerGroup, leavers: Sequence[Leaver]) -> list[Left]:
    """Answer LeaveGroup for each listed member, whichever protocol it uses.

    Each response entry repeats the request's ids: an administrator who named only an instance id
    looks for that.
    """
    answers: list[Left] = []
    gone: dict[str, Member] = {}
    for member_id, instance_id, _ in leavers:
        try:
            member = _leaver(group, member_id, instance_id)
        except ApiError as error:
            answers.append(Left(member_id, instance_id, error.code))
            continue
        gone[member.member_id] = member
        answers.append(Left(member_id, instance_id, ErrorCode.NONE))
    if gone:
        turn = Turn(shard, group)
        leaving.remove(turn, list(gone.values()))
        turn.finish(ignore_result)
    return answers
