"""ShareGroupHeartbeat: members of a share group join, send heartbeats and leave.

Members follow a new assignment at once: a partition may have two readers for a while, but a record
has only one, so no revocation is needed. The reference for errors is Kafka's GroupMetadataManager.
As there, a heartbeat does not wait until newly subscribed partitions have share state: they are
assigned once it is initialised, and a later heartbeat returns them. So members that join together
share them.

Acquired records outlive the membership: the share session releases them (`sessions`), or their
locks expire. Clients leave and acknowledge at the same time on two connections, so either request
may arrive first.
"""

import logging
from functools import partial
from typing import NamedTuple

from headrace.broker.metadata_image import MetadataImage
from headrace.coordination.groups.context import ShardContext
from headrace.coordination.groups.modern import epochs
from headrace.coordination.groups.modern.changes import MemberTarget
from headrace.coordination.groups.modern.ending import enter
from headrace.coordination.groups.modern.fencing import fence
from headrace.coordination.groups.modern.group_change import Turn
from headrace.coordination.groups.modern.heartbeat import HeartbeatAnswer, answer, interval_ms
from headrace.coordination.groups.modern.timers import SESSION
from headrace.coordination.groups.share import target_assignment
from headrace.coordination.groups.share.assignor import Part
from headrace.coordination.groups.share.context import ShareContext
from headrace.coordination.groups.share.group import ShareGroup, with_parts
from headrace.coordination.groups.share.model import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    NOBODY,
    Assigned,
    ShareMemberStanding,
    ShareMemberSubscription,
    ShareStanding,
    ShareSubscription,
    StatePartitions,
)
from headrace.coordination.share.keys import ShareKey
from headrace.model.errors import ApiError, ErrorCode
from headrace.ports.callbacks import Done, ignore_result

_logger = logging.getLogger(__name__)
_RECORD_TOPICS_MAX = 1000
"""Maximum topics in a member's subscription, which is stored in one record."""


class Heartbeat(NamedTuple):
    """A ShareGroupHeartbeat request."""

    group_id: str
    member_id: str
    epoch: int
    rack_id: str | None
    topics: tuple[str, ...] | None
    """Subscribed topics; None if unchanged."""
    client_id: str
    client_host: str


def validate(request: Heartbeat) -> None:
    """Raise ApiError INVALID_REQUEST, with Kafka's texts, for an invalid request."""
    problem = None
    if not request.member_id:
        problem = "MemberId can't be empty."
    elif not request.group_id.strip():
        problem = "GroupId can't be empty."
    elif request.rack_id is not None and not request.rack_id.strip():
        problem = "RackId can't be empty."
    elif request.epoch == JOIN_EPOCH and not request.topics:
        problem = "SubscribedTopicNames must be set in first request."
    elif request.epoch < LEAVE_EPOCH:
        problem = "MemberEpoch is invalid."
    elif request.topics is not None and len(request.topics) > _RECORD_TOPICS_MAX:
        problem = f"At most {_RECORD_TOPICS_MAX} topics."
    if problem is not None:
        raise ApiError(ErrorCode.INVALID_REQUEST, problem)


def heartbeat(
    shard: ShardContext,
    context: ShareContext,
    request: Heartbeat,
    done: Done[HeartbeatAnswer[Assigned]],
) -> None:
    """Handle a heartbeat that joins, stays or leaves; respond once its changes are committed."""
    try:
        validate(request)
        turn = _open_group(shard, request)
    except ApiError as error:
        done(HeartbeatAnswer(error.code, error.message))
        return
    decide = _leave if request.epoch == LEAVE_EPOCH else _beat
    answer(turn, partial(decide, context, request), done)


def _open_group(shard: ShardContext, request: Heartbeat) -> Turn[ShareGroup]:
    """Return a turn in the group, creating the group for a joining member. ApiError
    GROUP_ID_NOT_FOUND."""
    group_id = request.group_id
    group = shard.modern.find(ShareGroup, group_id)
    if group is not None:
        return Turn(shard, group)
    joins = request.epoch == JOIN_EPOCH
    taken = group_id in shard.groups or group_id in shard.modern
    if taken and request.epoch != LEAVE_EPOCH:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
    if not joins:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {group_id} not found.")
    turn = Turn(shard, ShareGroup(group_id))
    enter(turn)
    return turn


def _check_member(group: ShareGroup, request: Heartbeat, members_max: int) -> None:
    member = group.members.get(request.member_id)
    if member is None:
        if request.epoch != JOIN_EPOCH:
            raise ApiError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member {request.member_id} is not a member of group {request.group_id}.",
            )
        if len(group.members) >= members_max:
            raise ApiError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The share group has reached its maximum capacity of {members_max} members.",
            )
        return
    standing = member.standing
    if request.epoch in (JOIN_EPOCH, standing.epoch):
        return
    if request.epoch > standing.epoch or request.epoch != standing.previous_epoch:
        known = "larger" if request.epoch > standing.epoch else "smaller"
        raise ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The share group member has a {known} member epoch ({request.epoch}) than the one "
            f"known by the group coordinator ({standing.epoch}). The member must abandon all its "
            "partitions and rejoin.",
        )


# Partitions without share state


def _without_state(group: ShareGroup, image: MetadataImage) -> list[tuple[str, Part]]:
    """Return (topic name, (topic id, partition)) of subscribed partitions without share state."""
    found: list[tuple[str, Part]] = []
    for name in sorted(group.subscribed_topics()):
        topic = image.topics.get(name)
        if topic is None or topic.internal:
            continue
        count, known = len(topic.partitions), group.with_state(topic.topic_id)
        if len(known) < count:
            missing = sorted(set(range(count)).difference(known))
            found += [(name, (topic.topic_id, index)) for index in missing]
    return found


def _make_state(
    shard: ShardContext, context: ShareContext, group: ShareGroup, fresh: list[tuple[str, Part]]
) -> None:
    """Initialise the share state of partitions, then assign them."""
    group.makes_state = True

    def made(error: ErrorCode | None) -> None:
        group.makes_state = False
        if shard.modern.get(group.group_id) is not group:
            return
        if error is not None:
            _logger.warning(
                "group %s: cannot initialise share state, retrying at the next heartbeat: %s",
                group.group_id,
                error.name,
            )
            return
        group.dropped.difference_update(part for _, part in fresh)
        parts: dict[tuple[str, bytes], list[int]] = {}
        for name, (topic_id, index) in fresh:
            parts.setdefault((name, topic_id), []).append(index)
        initialized = group.initialized
        for (name, topic_id), indexes in parts.items():
            initialized = with_parts(initialized, name, topic_id, indexes)
        turn = Turn(shard, group)
        turn.change(StatePartitions(initialized))
        if group.members:
            epochs.grow(turn)
            target_assignment.update(turn)
        # If it fails, the next heartbeat retries.
        turn.finish(ignore_result)

    context.states.make([ShareKey(group.group_id, *part) for _, part in fresh], group.epoch, made)


# Changes by a heartbeat


def _beat(
    context: ShareContext, request: Heartbeat, turn: Turn[ShareGroup]
) -> HeartbeatAnswer[Assigned]:
    """Apply a member's heartbeat and return its response. Raises ApiError."""
    shard, group, member_id = turn.shard, turn.group, request.member_id
    _check_member(group, request, context.members_max())
    present = group.members.get(member_id)
    before = NOBODY if present is None else present.subscription
    after = _updated(before, request)
    if present is None or before != after:
        turn.change(ShareMemberSubscription(member_id, after))
    epochs.refresh(turn, changed=present is None or before.topics != after.topics)
    target_assignment.update(turn)
    standing = _bring_up(turn, member_id)
    _session_runs(shard, group, member_id)
    fresh = _without_state(group, shard.image())
    if fresh and not group.makes_state:
        turn.after(lambda: _make_state(shard, context, group, fresh))
    settles = bool(fresh) or group.epoch != group.target_epoch
    tells = (
        request.epoch == JOIN_EPOCH
        or request.topics is not None
        or present is None  # it joined
        or present.standing.assigned != standing.assigned
    )
    return HeartbeatAnswer(
        ErrorCode.NONE,
        None,
        member_id,
        standing.epoch,
        interval_ms(shard, group, settles=settles),
        standing.assigned if tells else None,
    )


def _updated(present: ShareSubscription, request: Heartbeat) -> ShareSubscription:
    """Return the member's subscription after `request`."""
    topics = request.topics
    return ShareSubscription(
        request.rack_id if request.rack_id is not None else present.rack_id,
        request.client_id,
        request.client_host,
        tuple(sorted(set(topics))) if topics is not None else present.topics,
    )


def _bring_up(turn: Turn[ShareGroup], member_id: str) -> ShareStanding:
    """Set the member's assignment to its target; share groups need no revocation."""
    group = turn.group
    standing = group.members[member_id].standing
    target = group.target.get(member_id, frozenset())
    if standing.epoch == group.target_epoch and standing.assigned == target:
        return standing
    after = ShareStanding(group.target_epoch, standing.epoch, target)
    turn.change(ShareMemberStanding(member_id, after))
    return after


def _leave(
    context: ShareContext, request: Heartbeat, turn: Turn[ShareGroup]
) -> HeartbeatAnswer[Assigned]:
    if request.member_id not in turn.group.members:
        raise ApiError(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"Member {request.member_id} is not a member of group {request.group_id}.",
        )
    _remove(turn, request.member_id)
    return HeartbeatAnswer(ErrorCode.NONE, None, request.member_id, LEAVE_EPOCH)


def _remove(turn: Turn[ShareGroup], member_id: str) -> None:
    """Remove the member and reassign its partitions."""
    turn.change(ShareMemberStanding(member_id, None))
    turn.change(MemberTarget(member_id, None))
    turn.change(ShareMemberSubscription(member_id, None))
    turn.after(partial(turn.group.timers.end_of, member_id))
    epochs.grow(turn)
    target_assignment.update(turn)


# Sessions


def revive(shard: ShardContext) -> None:
    """Start the session timers of all members after the groups were replayed from the log."""
    for group in shard.modern.all_of(ShareGroup):
        for member_id in group.members:
            _session_runs(shard, group, member_id)


def _session_runs(shard: ShardContext, group: ShareGroup, member_id: str) -> None:
    """Restart the member's session timer, which removes the member."""
    seconds = shard.setting_of(group, "session.timeout.ms") / 1000
    lost = partial(_lost, shard, group, member_id)
    group.timers.arm(shard.deadlines, SESSION, member_id, seconds, lost)


def _lost(shard: ShardContext, group: ShareGroup, member_id: str) -> None:
    fence(
        shard,
        group,
        member_id,
        "its session ended",
        remove=lambda turn: _remove(turn, member_id),
        # If the append fails, removal is retried after another session timeout.
        again=lambda: _session_runs(shard, group, member_id),
    )
