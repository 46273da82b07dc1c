"""ConsumerGroupHeartbeat: a member sends its subscription and owned partitions, and gets its
assignment."""

from functools import partial

from headrace.coordination.groups.consumer import (
    advance_member,
    find_members,
    find_or_create,
    leaving,
    subscriptions,
    target_assignment,
    validate,
)
from headrace.coordination.groups.consumer.group import ConsumerGroup
from headrace.coordination.groups.consumer.messages import (
    HeartbeatRequest,
)
from headrace.coordination.groups.consumer.model import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    OwnedPartitions,
    Subscription,
)
from headrace.coordination.groups.context import ShardContext
from headrace.coordination.groups.modern.group_change import Turn
from headrace.coordination.groups.modern.heartbeat import HeartbeatAnswer, answer, interval_ms
from headrace.model import regex
from headrace.model.errors import ApiError, ErrorCode
from headrace.ports.callbacks import Done


def heartbeat(
    shard: ShardContext, request: HeartbeatRequest, done: Done[HeartbeatAnswer[OwnedPartitions]]
) -> None:
    """Handle a heartbeat; call `done` once, after the changes in the response are committed."""
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
    except ApiError as error:
        done(HeartbeatAnswer(error.code, error.message))
        return
    answer(turn, partial(_beat, request), done)


def _beat(request: HeartbeatRequest, turn: Turn[ConsumerGroup]) -> HeartbeatAnswer[OwnedPartitions]:
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
    changed = subscriptions.take(turn, member_id, before, after, request.permissions)
    changed = subscriptions.refresh_regexes(turn, request.permissions) or changed
    subscriptions.refresh(turn, changed)
    target_assignment.update(turn)
    was_assigned = None if present is None else present.standing.assigned
    member = advance_member.step(turn, group.members[member_id], request.owned, changed=changed)
    leaving.session_runs(shard, group, member)
    tells = joins or request.is_full or member.standing.assigned != was_assigned
    settles = group.epoch != group.target_epoch or not member.is_reconciled_to(group.target_epoch)
    return HeartbeatAnswer(
        ErrorCode.NONE,
        None,
        member_id,
        member.standing.epoch,
        interval_ms(shard, group, settles=settles),
        member.standing.assigned if tells else None,
    )
