"""ShareGroupHeartbeat: being in a share group, verb by verb.

The coordinator decides, members follow at once: a partition may be with two members for a while and
no record is, so nothing need be given up first. Kafka's GroupMetadataManager settles who is refused
and how. As there, a heartbeat does not wait for the state of newly subscribed partitions: they are
assigned once that is made, and a later heartbeat is told, so that members who come together share.

What a member holds outlives its membership: its session gives it back (`sessions`), or the locks
run out. Clients leave and acknowledge at once, on two connections, and either may come first.
"""

import logging
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from headrace.broker.metadata_image import MetadataImage
from headrace.coordination.groups.share import records, target_assignment
from headrace.coordination.groups.share.assignor import Part
from headrace.coordination.groups.share.context import ShareContext
from headrace.coordination.groups.share.group import ShareGroup, ShareMember, with_parts
from headrace.coordination.share.keys import ShareKey
from headrace.model.errors import ApiError, ErrorCode
from headrace.ports.callbacks import Done

if TYPE_CHECKING:
    from headrace.coordination.groups.context import ShardContext
    from headrace.coordination.runtime.journal import KeyValue

_logger = logging.getLogger(__name__)
JOIN_EPOCH = 0
LEAVE_EPOCH = -1
_RECORD_TOPICS_MAX = 1000
"""Topics one member may name: a subscription is kept in one record."""


class Heartbeat(NamedTuple):
    """What a member says."""

    group_id: str
    member_id: str
    epoch: int
    rack_id: str | None
    topics: tuple[str, ...] | None
    """None: as before."""
    client_id: str
    client_host: str


class HeartbeatAnswer(NamedTuple):
    """What it is told. `assigned` None: as before."""

    error: ErrorCode
    message: str | None = None
    member_id: str | None = None
    epoch: int = 0
    interval_ms: int = 0
    assigned: frozenset[Part] | None = None


def validate(one: Heartbeat) -> None:
    """ApiError INVALID_REQUEST for what no member may say, in Kafka's words."""
    problem = None
    if not one.member_id:
        problem = "MemberId can't be empty."
    elif not one.group_id.strip():
        problem = "GroupId can't be empty."
    elif one.rack_id is not None and not one.rack_id.strip():
        problem = "RackId can't be empty."
    elif one.epoch == JOIN_EPOCH and not one.topics:
        problem = "SubscribedTopicNames must be set in first request."
    elif one.epoch < LEAVE_EPOCH:
        problem = "MemberEpoch is invalid."
    elif one.topics is not None and len(one.topics) > _RECORD_TOPICS_MAX:
        problem = f"At most {_RECORD_TOPICS_MAX} topics."
    if problem is not None:
        raise ApiError(ErrorCode.INVALID_REQUEST, problem)


def heartbeat(
    shard: "ShardContext", context: ShareContext, one: Heartbeat, done: Done[HeartbeatAnswer]
) -> None:
    """A member is there, joins or leaves; answered once what it changes is committed."""
    try:
        validate(one)
        if one.epoch == LEAVE_EPOCH:
            _leave(shard, context, one, done)
            return
        group = _group_for(shard, one)
        _check_member(group, one, context.members_max())
    except ApiError as error:
        done(HeartbeatAnswer(error.code, error.message))
        return
    _take_in(shard, context, group, one, done)


def _group_for(shard: "ShardContext", one: Heartbeat) -> ShareGroup:
    group = shard.share.get(one.group_id)
    if group is not None:
        return group
    if one.group_id in shard.groups or one.group_id in shard.consumers:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {one.group_id} is not a share group.")
    if one.epoch != JOIN_EPOCH:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {one.group_id} not found.")
    return ShareGroup(one.group_id)


def _check_member(group: ShareGroup, one: Heartbeat, members_max: int) -> None:
    member = group.members.get(one.member_id)
    if member is None:
        if one.epoch != JOIN_EPOCH:
            raise ApiError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member {one.member_id} is not a member of group {one.group_id}.",
            )
        if len(group.members) >= members_max:
            raise ApiError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The share group has reached its maximum capacity of {members_max} members.",
            )
        return
    if one.epoch in (JOIN_EPOCH, member.epoch):
        return
    if one.epoch > member.epoch or one.epoch != member.previous_epoch:
        known = "larger" if one.epoch > member.epoch else "smaller"
        raise ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The share group member has a {known} member epoch ({one.epoch}) than the one known "
            f"by the group coordinator ({member.epoch}). The member must abandon all its "
            "partitions and rejoin.",
        )


# What has no state yet


def _without_state(group: ShareGroup, image: MetadataImage) -> list[tuple[str, Part]]:
    """Partitions that are subscribed to and of which nothing is kept yet, with their topics."""
    found: list[tuple[str, Part]] = []
    for name in sorted(group.subscribed()):
        topic = image.topics.get(name)
        if topic is None or topic.internal:
            continue
        count, known = len(topic.partitions), group.with_state(topic.topic_id)
        if len(known) < count:
            missing = sorted(set(range(count)).difference(known))
            found += [(name, (topic.topic_id, index)) for index in missing]
    return found


def _make_state(
    shard: "ShardContext", context: ShareContext, group: ShareGroup, fresh: list[tuple[str, Part]]
) -> None:
    """Have state made of partitions that have none, then assign them."""
    group.busy = True

    def made(error: ErrorCode | None) -> None:
        group.busy = False
        if shard.share.get(group.group_id) is not group:
            return
        if error is not None:
            # The next heartbeat tries again.
            _logger.warning("group %s: no state made yet: %s", group.group_id, error.name)
            return
        parts: dict[tuple[str, bytes], list[int]] = {}
        for name, (topic_id, index) in fresh:
            parts.setdefault((name, topic_id), []).append(index)
        for (name, topic_id), indexes in parts.items():
            group.initialized = with_parts(group.initialized, name, topic_id, indexes)
        changes = [records.state_partitions(group)]
        if group.members:
            changes += target_assignment.rebalance(shard, context, group, force=True)
        _write(shard, changes, lambda error: None)

    context.states.make([ShareKey(group.group_id, *part) for _, part in fresh], group.epoch, made)


# What changes


def _take_in(
    shard: "ShardContext",
    context: ShareContext,
    group: ShareGroup,
    one: Heartbeat,
    done: Done[HeartbeatAnswer],
) -> None:
    """Let the group be as the member says, everybody's part included; then answer."""
    if shard.share.get(group.group_id) is None:
        shard.share.add(group)
    changes: list[KeyValue] = []
    member = group.members.get(one.member_id) or ShareMember(one.member_id)
    before = (member.rack_id, member.topics, member.client_id, member.client_host)
    member.rack_id = one.rack_id if one.rack_id is not None else member.rack_id
    member.topics = tuple(sorted(set(one.topics))) if one.topics is not None else member.topics
    member.client_id, member.client_host = one.client_id, one.client_host
    after = (member.rack_id, member.topics, member.client_id, member.client_host)
    joined = one.member_id not in group.members
    group.members[one.member_id] = member
    if joined or before != after:
        changes.append(records.member(group.group_id, member))
    resubscribed = joined or before[1] != after[1]
    changes += target_assignment.rebalance(shard, context, group, force=resubscribed)
    told = member.assigned
    changes += _bring_up(group, member)
    _expect(shard, context, group, member)
    fresh = _without_state(group, context.image())
    settles = bool(fresh) or group.epoch != group.target_epoch
    answer = HeartbeatAnswer(
        ErrorCode.NONE,
        None,
        member.member_id,
        member.epoch,
        _interval_ms(shard, context, group, settles=settles),
        member.assigned
        if one.epoch == JOIN_EPOCH or one.topics is not None or told != member.assigned
        else None,
    )
    _write(shard, changes, lambda error: done(answer if error is None else HeartbeatAnswer(error)))
    if fresh and not group.busy:
        _make_state(shard, context, group, fresh)


def _interval_ms(
    shard: "ShardContext", context: ShareContext, group: ShareGroup, *, settles: bool
) -> int:
    """How soon the member is to be heard of again: sooner while its target is still to come."""
    interval_ms = context.settings.heartbeat_ms(group.group_id)
    if not settles:
        return interval_ms
    return min(interval_ms, shard.limits.consumer_settling_interval_ms)


def _bring_up(group: ShareGroup, member: ShareMember) -> "list[KeyValue]":
    """Let the member have its target."""
    parts = group.target.get(member.member_id, frozenset())
    if member.epoch == group.target_epoch and member.assigned == parts:
        return []
    member.previous_epoch, member.epoch = member.epoch, group.target_epoch
    member.assigned = parts
    return [records.current(group.group_id, member)]


def _leave(
    shard: "ShardContext", context: ShareContext, one: Heartbeat, done: Done[HeartbeatAnswer]
) -> None:
    group = shard.share.get(one.group_id)
    if group is None:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {one.group_id} not found.")
    if one.member_id not in group.members:
        raise ApiError(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"Member {one.member_id} is not a member of group {one.group_id}.",
        )
    answer = HeartbeatAnswer(ErrorCode.NONE, None, one.member_id, LEAVE_EPOCH)
    _remove(
        shard,
        context,
        group,
        one.member_id,
        lambda error: done(answer if error is None else HeartbeatAnswer(error)),
    )


def _remove(
    shard: "ShardContext",
    context: ShareContext,
    group: ShareGroup,
    member_id: str,
    done: Done[ErrorCode | None],
) -> None:
    member = group.members.pop(member_id)
    if member.session is not None:
        member.session.cancel()
    group.target.pop(member_id, None)
    changes = records.member_gone(group.group_id, member_id)
    changes += target_assignment.rebalance(shard, context, group, force=True)
    _write(shard, changes, done)


# Sessions


def revive(shard: "ShardContext", context: ShareContext) -> None:
    """Members of before get one session's time to be heard of again."""
    for group in shard.share:
        for member in group.members.values():
            _expect(shard, context, group, member)


def _expect(
    shard: "ShardContext", context: ShareContext, group: ShareGroup, member: ShareMember
) -> None:
    """The member is to be heard of again within its session's time."""
    if member.session is None:
        member.session = shard.deadlines.deadline(
            partial(_lost, shard, context, group, member.member_id)
        )
    member.session.set(context.settings.session_seconds(group.group_id))


def _lost(shard: "ShardContext", context: ShareContext, group: ShareGroup, member_id: str) -> None:
    if member_id in group.members:
        _remove(shard, context, group, member_id, lambda error: None)


# Parts


def _write(
    shard: "ShardContext",
    changes: "list[KeyValue]",
    done: Done[ErrorCode | None],
) -> None:
    if changes:
        shard.journal.append_now(changes, done)
    else:
        done(None)
