"""Members that leave, members that are fenced, and the timers that fence them."""

from functools import partial

from headrace.coordination.groups.consumer import find_members, migration, subscriptions
from headrace.coordination.groups.consumer.group import ConsumerGroup
from headrace.coordination.groups.consumer.messages import (
    HeartbeatRequest,
)
from headrace.coordination.groups.consumer.model import (
    LEAVE_STATIC_EPOCH,
    Member,
    MemberStanding,
    OwnedPartitions,
    Standing,
)
from headrace.coordination.groups.context import ShardContext
from headrace.coordination.groups.modern import epochs, heartbeat
from headrace.coordination.groups.modern.fencing import fence
from headrace.coordination.groups.modern.group_change import Turn
from headrace.coordination.groups.modern.heartbeat import HeartbeatAnswer
from headrace.coordination.groups.modern.timers import JOIN, REBALANCE, SESSION, SYNC
from headrace.model.errors import ErrorCode
from headrace.ports.callbacks import Done


def leave(
    shard: ShardContext, request: HeartbeatRequest, done: Done[HeartbeatAnswer[OwnedPartitions]]
) -> None:
    """Handle a heartbeat of epoch -1 (leave) or -2 (static member leaves for a while).

    Raises ApiError.
    """
    group = find_members.find(shard, request.group_id)
    if request.instance_id is None:
        member = group.member(request.member_id)
    else:
        holder = group.static_member(request.instance_id)
        member = find_members.check_instance(holder, request.member_id, request.instance_id)

    def decide(turn: Turn[ConsumerGroup]) -> HeartbeatAnswer[OwnedPartitions]:
        _leave(turn, request, member)
        return HeartbeatAnswer(ErrorCode.NONE, None, member.member_id, request.epoch)

    heartbeat.answer(Turn(shard, group), decide, done)


def _leave(turn: Turn[ConsumerGroup], request: HeartbeatRequest, member: Member) -> None:
    if request.instance_id is not None and request.epoch == LEAVE_STATIC_EPOCH:
        # A static member keeps its place until its session expires.
        standing = member.standing
        away = Standing(
            LEAVE_STATIC_EPOCH, standing.previous_epoch, standing.state, standing.assigned
        )
        turn.change(MemberStanding(member.member_id, away))
    else:
        remove(turn, [member])


def remove(turn: Turn[ConsumerGroup], gone: list[Member]) -> None:
    """Remove members and reassign; downgrade to a classic group if only classic members remain."""
    group = turn.group
    names = [member.member_id for member in gone]
    if migration.may_downgrade(turn.shard, group, without=names):
        migration.downgrade(turn, without=names)
        return
    for member in gone:
        find_members.remove_records(turn, member.member_id)
        subscriptions.forget_regex(turn, member.subscription.regex)
        turn.after(partial(group.timers.end_of, member.member_id))
    epochs.grow(turn)


def session_runs(shard: ShardContext, group: ConsumerGroup, member: Member) -> None:
    """Restart the member's session timer, which fences the member."""
    classic = member.subscription.classic
    if classic is not None:
        timeout_ms = classic.session_timeout_ms
    else:
        timeout_ms = shard.setting_of(group, "session.timeout.ms")
    _arm(shard, group, SESSION, member.member_id, timeout_ms, "its session ended")


def revocation_runs(shard: ShardContext, group: ConsumerGroup, member: Member) -> None:
    """Start the rebalance timer of a member that has to revoke partitions; it fences the member."""
    epoch = member.standing.epoch
    timeout_ms = member.subscription.rebalance_timeout_ms
    member_id = member.member_id

    def ring() -> None:
        present = group.members.get(member_id)
        if present is not None and present.standing.epoch == epoch:
            _fence(shard, group, member_id, f"it did not leave epoch {epoch} in {timeout_ms} ms")

    group.timers.arm(shard.deadlines, REBALANCE, member_id, timeout_ms / 1000, ring)


def join_runs(shard: ShardContext, group: ConsumerGroup, member: Member) -> None:
    """Start a classic member's rejoin timer unless it runs; on expiry the member is fenced."""
    if not group.timers.is_armed(JOIN, member.member_id):
        timeout_ms = member.subscription.rebalance_timeout_ms
        _arm(shard, group, JOIN, member.member_id, timeout_ms, "it did not join again")


def sync_runs(shard: ShardContext, group: ConsumerGroup, member: Member) -> None:
    """Start the SyncGroup timer of a classic member; it fences the member."""
    timeout_ms = member.subscription.rebalance_timeout_ms
    _arm(shard, group, SYNC, member.member_id, timeout_ms, "it did not sync")


def _arm(
    shard: ShardContext,
    group: ConsumerGroup,
    kind: str,
    member_id: str,
    timeout_ms: int,
    because: str,
) -> None:
    ring = partial(_fence, shard, group, member_id, because)
    group.timers.arm(shard.deadlines, kind, member_id, timeout_ms / 1000, ring)


def _fence(shard: ShardContext, group: ConsumerGroup, member_id: str, because: str) -> None:
    fence(
        shard,
        group,
        member_id,
        because,
        remove=lambda turn: remove(turn, [group.members[member_id]]),
        # If the append fails, fencing is retried after another session timeout.
        again=lambda: session_runs(shard, group, group.members[member_id]),
    )


def revive(shard: ShardContext, group: ConsumerGroup) -> None:
    """Start the timers of all members after the group was replayed from the log."""
    for member in group.members.values():
        session_runs(shard, group, member)
        if not member.is_classic and member.standing.pending:
            revocation_runs(shard, group, member)
