"""Move a member one step towards its target assignment, and start the timers of that step."""

from functools import partial

from headrace.coordination.groups.assignors.spec import Partitions
from headrace.coordination.groups.consumer import leaving, reconcile, subscriptions
from headrace.coordination.groups.consumer.group import NOTHING, ConsumerGroup
from headrace.coordination.groups.consumer.model import Member, MemberStanding, MemberState
from headrace.coordination.groups.modern.group_change import Turn
from headrace.coordination.groups.modern.timers import REBALANCE


def step(
    turn: Turn[ConsumerGroup], member: Member, owned: Partitions | None, *, changed: bool
) -> Member:
    """Reconcile the member by one step and return it. ApiError FENCED_MEMBER_EPOCH.

    `owned`: the partitions that the member reports to own; None if it reports none.
    """
    shard, group = turn.shard, turn.group
    if not changed and member.is_reconciled_to(group.target_epoch):
        return member
    towards = reconcile.Towards(
        group.target_epoch,
        group.target.get(member.member_id, NOTHING),
        subscriptions.topic_ids(shard, group, member),
        owned,
        changed,
    )
    standing = reconcile.next_standing(group, member, towards)
    if standing == member.standing:
        return member
    turn.change(MemberStanding(member.member_id, standing))
    after = group.members[member.member_id]
    if not after.is_classic:
        if standing.state is MemberState.UNREVOKED_PARTITIONS:
            turn.after(partial(leaving.revocation_runs, shard, group, after))
        else:
            turn.after(partial(group.timers.disarm, REBALANCE, member.member_id))
    return after
