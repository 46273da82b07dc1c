"""ConsumerGroupHeartbeat: a member says what it wants and has, and hears what it is to have."""

from headrace.coordination.groups.consumer import (
    advance_member,
    find_members,
    find_or_create,
    leaving,
    regex,
    subscriptions,
    target_assignment,
    validate,
)
from headrace.coordination.groups.consumer.group import ConsumerGroup
from headrace.coordination.groups.consumer.group_change import Turn
from headrace.coordination.groups.consumer.messages import (
    HeartbeatAnswer,
    HeartbeatRequest,
)
from headrace.coordination.groups.consumer.model import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    Member,
    Subscription,
)
from headrace.coordination.groups.context import ShardContext
from headrace.model.errors import ApiError, ErrorCode
from headrace.ports.callbacks import Done


def heartbeat(shard: ShardContext, request: HeartbeatRequest, done: Done[HeartbeatAnswer]) -> None:
    """`done` is called once, when what the answer says is committed."""
    turn: Turn | None = None
    try:
        validate.check_request(request, shard.limits.consumer_assignors)
        if request.epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
            leaving.leave(shard, request, done)
            return
        if request.regex:
            regex.check(request.regex)
        turn = find_or_create.open_group(
            shard, request.group_id, create=request.epoch == JOIN_EPOCH
        )
        answer = _beat(turn, request)
    except ApiError as error:
        if turn is not None:
            turn.take_back()
        done(HeartbeatAnswer(error.code, error.message))
        return

    def settled(error: ErrorCode | None) -> None:
        done(answer if error is None else HeartbeatAnswer(error))

    turn.finish(settled)


def _beat(turn: Turn, request: HeartbeatRequest) -> HeartbeatAnswer:
    shard, group = turn.shard, turn.group
    joins = request.epoch == JOIN_EPOCH
    member_id = request.member_id or shard.new_id()
    find_members.check_room(shard, group, member_id)
    present = find_members.take_in(
        turn,
        member_id,
        request.instance_id,
        joins=joins,
        replaces=lambda holder: find_members.check_released(holder, member_id),
    )
    if present is not None:
        validate.check_epoch(present, request.epoch, request.owned)
    before = present.subscription if present is not None else None
    after = subscriptions.updated(before or Subscription(), request)
    changed = subscriptions.take(turn, member_id, before, after)
    subscriptions.refresh(turn, changed)
    target_assignment.update(turn)
    was_assigned = None if present is None else present.standing.assigned
    member = advance_member.step(turn, group.members[member_id], request.owned, changed=changed)
    leaving.session_runs(shard, group, member)
    tells = joins or request.is_full or member.standing.assigned != was_assigned
    return HeartbeatAnswer(
        ErrorCode.NONE,
        None,
        member_id,
        member.standing.epoch,
        _interval_ms(shard, group, member),
        member.standing.assigned if tells else None,
    )


def _interval_ms(shard: ShardContext, group: ConsumerGroup, member: Member) -> int:
    """How soon the member is to be heard of again: sooner while it waits for something."""
    interval_ms = shard.group_setting(group.group_id, "consumer.heartbeat.interval.ms")
    if group.epoch == group.target_epoch and member.is_reconciled_to(group.target_epoch):
        return interval_ms
    return min(interval_ms, shard.limits.consumer_settling_interval_ms)
