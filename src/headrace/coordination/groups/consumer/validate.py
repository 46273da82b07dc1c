"""Validation of ConsumerGroupHeartbeat requests."""

from headrace.coordination.groups.assignors.spec import Partitions
from headrace.coordination.groups.consumer.messages import HeartbeatRequest
from headrace.coordination.groups.consumer.model import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    Member,
    OwnedPartitions,
)
from headrace.model.errors import ApiError, ErrorCode


def check_request(request: HeartbeatRequest, assignors: tuple[str, ...]) -> None:
    """Raise ApiError INVALID_REQUEST or UNSUPPORTED_ASSIGNOR if the request is incomplete or
    invalid."""
    for name, value in (
        ("GroupId", request.group_id),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    ):
        _check(value is None or bool(value.strip()), f"{name} can't be empty.")
    joins = request.epoch == JOIN_EPOCH
    named = bool(request.member_id.strip()) or (joins and not request.needs_member_id)
    _check(named, "MemberId can't be empty.")
    if joins:
        _check_join(request)
    elif request.epoch == LEAVE_STATIC_EPOCH:
        _check(request.instance_id is not None, "InstanceId can't be null.")
    else:
        _check(request.epoch >= LEAVE_EPOCH, f"MemberEpoch {request.epoch} is invalid.")
    if request.assignor is not None and request.assignor not in assignors:
        raise ApiError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.assignor} is not supported. "
            f"Supported assignors: {', '.join(assignors)}.",
        )


def _check_join(request: HeartbeatRequest) -> None:
    _check(
        request.rebalance_timeout_ms != -1, "RebalanceTimeoutMs must be provided in first request."
    )
    _check(
        request.owned is not None and not request.owned,
        "TopicPartitions must be empty when (re-)joining.",
    )
    _check(
        request.topics is not None or request.regex is not None,
        "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
    )


def _check(holds: bool, message: str) -> None:
    if not holds:
        raise ApiError(ErrorCode.INVALID_REQUEST, message)


def check_epoch(member: Member, epoch: int, owned: Partitions | None) -> None:
    """Raise ApiError FENCED_MEMBER_EPOCH unless the member's epoch is current.

    The previous epoch is accepted if all partitions that the member owns are assigned to it: then
    only the response with the new epoch was lost.
    """
    standing = member.standing
    if epoch in (JOIN_EPOCH, standing.epoch):
        return  # A joining member has revoked all its partitions.
    if (
        epoch < standing.epoch
        and epoch == standing.previous_epoch
        and _is_subset(owned, standing.assigned)
    ):
        return
    which = "greater" if epoch > standing.epoch else "smaller"
    raise ApiError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {which} member epoch ({epoch}) than the one known by "
        f"the group coordinator ({standing.epoch}). The member must abandon all its partitions "
        "and rejoin.",
    )


def _is_subset(owned: Partitions | None, assigned: OwnedPartitions) -> bool:
    if owned is None:
        return False
    return all(parts <= assigned.get(topic, {}).keys() for topic, parts in owned.items())
