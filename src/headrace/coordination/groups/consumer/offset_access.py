"""Which members may commit and fetch offsets in a consumer group (KIP-848, KIP-1251)."""

from collections.abc import Iterable

from headrace.broker.metadata_image import MetadataImage
from headrace.coordination.groups.consumer.group import ConsumerGroup
from headrace.coordination.groups.consumer.model import Member
from headrace.coordination.groups.messages import CommitRequest
from headrace.model.errors import ApiError, ErrorCode

_MEMBERS_COMMIT_SINCE = 9
_NO_EPOCH = -1


def check_commit(
    group: ConsumerGroup,
    request: CommitRequest,
    image: MetadataImage,
    *,
    in_transaction: bool = False,
) -> None:
    """Raise ApiError unless the request may commit to the group now.

    A member may commit with its current epoch; with an older epoch only partitions that it owned in
    that epoch and still owns. ApiError UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH (classic members:
    ILLEGAL_GENERATION) or UNSUPPORTED_VERSION.
    """
    epoch = request.generation
    if epoch < 0 and not group.members:
        return
    if in_transaction and epoch < 0 and not request.member_id and request.instance_id is None:
        return
    member = group.member(request.member_id)
    if not in_transaction and not member.is_classic and request.version < _MEMBERS_COMMIT_SINCE:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            "OffsetCommit version 9 or above must be used by members using the consumer group "
            "protocol",
        )
    present = member.standing.epoch
    if epoch == present:
        return
    places = ((offset.topic, offset.partition) for offset in request.offsets)
    if epoch > present or not _had(member, epoch, places, image):
        if in_transaction:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        raise _stale(member)


def _had(
    member: Member, epoch: int, places: Iterable[tuple[str, int]], image: MetadataImage
) -> bool:
    standing = member.standing
    for name, partition in places:
        topic = image.topics.get(name)
        if topic is None:
            return False
        since = standing.assigned.get(topic.topic_id, {}).get(partition)
        if since is None:
            since = standing.pending.get(topic.topic_id, {}).get(partition)
        if since is None or epoch < since:
            return False
    return True


def check_fetch(group: ConsumerGroup, member_id: str | None, epoch: int) -> None:
    """Raise ApiError unless the member may fetch offsets; a request without a member id may.

    ApiError UNKNOWN_MEMBER_ID or STALE_MEMBER_EPOCH.
    """
    if member_id is None and epoch < 0:
        return
    member = group.member(member_id or "")
    if member.standing.epoch != epoch:
        raise _stale(member)


def _stale(member: Member) -> ApiError:
    stale = ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH
    return ApiError(stale, f"the member's epoch is {member.standing.epoch}")
