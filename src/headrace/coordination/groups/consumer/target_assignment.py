"""The target assignment: who is to read what, made anew when the group's epoch has grown.

Made at most once in `group.consumer.assignment.interval.ms`, however many members come and go: a
thousand that join together cost a few assignments, not a thousand. The first one of a group is made
at once. A large group's assignor works on a thread; its members go on by what they have meanwhile.
"""

import logging
from functools import partial

from headrace.coordination.groups.assignors import ASSIGNORS
from headrace.coordination.groups.assignors.spec import Assignment, GroupSpec, MemberSpec
from headrace.coordination.groups.background_assigning import begin, is_made_at_once
from headrace.coordination.groups.consumer.group import NOTHING, ConsumerGroup
from headrace.coordination.groups.consumer.group_change import Turn
from headrace.coordination.groups.consumer.model import MemberTarget, TargetEpoch
from headrace.coordination.groups.context import ShardContext
from headrace.model.errors import ErrorCode

_logger = logging.getLogger(__name__)
_ASSIGN = "assign"


def update(turn: Turn) -> None:
    """Bring the target to the group's epoch, now or when the interval is over."""
    shard, group = turn.shard, turn.group
    if group.epoch <= group.target_epoch or not group.members or group.is_assigning:
        return
    interval_ms = shard.group_setting(group.group_id, "consumer.assignment.interval.ms")
    wait_ms = group.target_timestamp_ms + interval_ms - shard.clock.wall_ms()
    if wait_ms <= 0:
        assign(turn)
        return
    if (_ASSIGN, "") not in group.timers:
        # A clock that was put back must not hold assignments up.
        _later(shard, group, min(wait_ms, interval_ms))


def _later(shard: ShardContext, group: ConsumerGroup, wait_ms: int) -> None:
    def ring() -> None:
        group.disarm(_ASSIGN, "")
        turn = Turn(shard, group)
        if group.members and group.epoch > group.target_epoch and not group.is_assigning:
            assign(turn)
        turn.finish(_not_waited_for)

    group.arm(_ASSIGN, "", wait_ms / 1000, lambda: shard.deadlines.deadline(ring))


def assign(turn: Turn) -> None:
    """Ask the assignor, here or on a thread, and write what differs from the present target."""
    shard, group = turn.shard, turn.group
    group.disarm(_ASSIGN, "")
    name = group.assignor(shard.limits.consumer_assignors[0])
    spec = question(shard, group)
    subscribed = sum(len(one.topics) for one in spec.members.values())
    size = subscribed + sum(spec.partitions.values())
    offloads = shard.group_setting(group.group_id, "consumer.assignor.offload.enable")
    if is_made_at_once(group, size, bool(offloads)):
        _take(turn, ASSIGNORS[name](spec), group.epoch)
        return
    epoch = group.epoch

    def take(given: Assignment) -> None:
        later = Turn(shard, group)
        _take(later, given, epoch)
        update(later)  # who came or went meanwhile is for the next one
        later.finish(_not_waited_for)

    work = partial(ASSIGNORS[name], spec)
    turn.after(lambda: shard.run(work, begin(group, shard.consumers.get, take)))


def _take(turn: Turn, given: Assignment, epoch: int) -> None:
    """Write what differs from the present target, for those who are still there."""
    group = turn.group
    for member_id, partitions in given.items():
        if member_id in group.members and group.target.get(member_id) != partitions:
            turn.change(MemberTarget(member_id, partitions))
    turn.change(TargetEpoch(epoch, turn.shard.clock.wall_ms()))
    _logger.debug("group %s: target of epoch %d for %d members", group.group_id, epoch, len(given))


def question(shard: ShardContext, group: ConsumerGroup) -> GroupSpec:
    """What the assignor is asked. Members with equal subscriptions share one set of topics."""
    topics = shard.image().topics
    ids: dict[frozenset[str], frozenset[bytes]] = {}
    counts: dict[bytes, int] = {}
    members: dict[str, MemberSpec] = {}
    for member in group.members.values():
        names = group.topics_of(member.subscription)
        subscribed = ids.get(names)
        if subscribed is None:
            found = [one for one in map(topics.get, names) if one is not None]
            counts.update((one.topic_id, len(one.partitions)) for one in found)
            subscribed = ids[names] = frozenset(one.topic_id for one in found)
        members[member.member_id] = MemberSpec(
            subscribed,
            group.target.get(member.member_id, NOTHING),
            member.subscription.instance_id,
        )
    return GroupSpec(members, counts)


def _not_waited_for(error: ErrorCode | None) -> None:
    """What the log refused is tried again by the next heartbeat."""
