"""OffsetCommit (key 8, v2-v10): commit a group's offsets.

- Answered when the offsets are committed in `__consumer_offsets`: by default, on disk.
- Unknown topics and partitions are refused one by one; the others are committed.

Versions: v2-v4 retention time · v3 throttle · v6 leader epoch · v7 static members · v8 flexible v9
GROUP_ID_NOT_FOUND · v10 topic ids
"""

from collections.abc import Callable
from functools import partial

from headrace.broker.metadata_image import MetadataImage, TopicInfo
from headrace.coordination.groups.messages import CommitRequest, OffsetToCommit
from headrace.frontends.kafka.authentication.authorisation import (
    READ_GROUP,
    READ_TOPIC,
    permits,
)
from headrace.frontends.kafka.connection.handler import Answer, RequestContext
from headrace.frontends.kafka.groups import member_owners
from headrace.frontends.kafka.groups.offset_commit_pattern import encode_answer, pattern_of
from headrace.model.errors import ErrorCode
from headrace.net.pending import Pending
from headrace.wire.kafka.hot import offset_commit as codec

_NONE = ErrorCode.NONE
_TOO_LARGE = ErrorCode.OFFSET_METADATA_TOO_LARGE
_new = tuple.__new__


def handle(context: RequestContext, body: memoryview) -> Answer:
    """Commit a group's offsets; answer once they are committed, or at once if none can be."""
    version, runs = context.version, context.offset_commits
    if runs is not None:
        again = runs.again(version, body)
        if again is not None:
            return again
    places: list[int] = []
    request = codec.decode_request(version, body, places)
    groups = context.coordinators.groups
    image, limits = context.broker.image, groups.limits
    may_read: Callable[[str], bool] | None = None
    if not context.broker.authorizer.allows_all:
        if not permits(context, READ_GROUP, request.group_id):
            return encode_answer(version, request, {}, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        if member_owners.is_anothers(context, request.group_id, request.member_id):
            return encode_answer(version, request, {}, ErrorCode.UNKNOWN_MEMBER_ID)
        may_read = partial(permits, context, READ_TOPIC)
    offsets, refused = _sorted(request, image, version, limits.offset_metadata_max_bytes, may_read)
    if not offsets and _TOO_LARGE not in refused.values():
        return encode_answer(version, request, refused, _NONE)
    pending = Pending()
    commit = CommitRequest(
        request.group_id,
        request.generation_id,
        request.member_id,
        request.group_instance_id,
        offsets,
        request.retention_ms,
        version,
    )
    if runs is not None and not refused and runs.curious():
        authorisation = context.broker.authorizer.version
        runs.learn(pattern_of(image, limits, authorisation, version, body, places, request, commit))
    groups.commit(commit, partial(_answer, pending, version, request, refused))
    return pending


def _sorted(
    request: codec.OffsetCommitRequest,
    image: MetadataImage,
    version: int,
    metadata_max: int,
    may_read: Callable[[str], bool] | None = None,
) -> tuple[list[OffsetToCommit], dict[tuple[int, int], ErrorCode]]:
    """Return the offsets to commit, and the errors of others by their places in the request.

    `may_read` tells whether the member may read a topic; None: all topics.
    """
    offsets: list[OffsetToCommit] = []
    refused: dict[tuple[int, int], ErrorCode] = {}
    by_id = version >= codec.TOPIC_IDS_FROM
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for at, asked in enumerate(request.topics):
        topic: TopicInfo | None
        topic = image.topics_by_id.get(asked.topic_id) if by_id else image.topics.get(asked.name)
        name = asked.name if topic is None else topic.name
        hidden = may_read is not None and bool(name) and not may_read(name)
        for number, (index, offset, epoch, metadata) in enumerate(asked.partitions):
            if hidden:
                refused[at, number] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif topic is None:
                refused[at, number] = unknown
            elif not 0 <= index < len(topic.partitions):
                refused[at, number] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif metadata is not None and len(metadata) > metadata_max:
                refused[at, number] = _TOO_LARGE
            else:
                place = (topic.name, index, offset, epoch, metadata or "")
                offsets.append(_new(OffsetToCommit, place))
    return offsets, refused


def _answer(
    pending: Pending,
    version: int,
    request: codec.OffsetCommitRequest,
    refused: dict[tuple[int, int], ErrorCode],
    error: ErrorCode,
) -> None:
    if not pending.done:
        pending.resolve(encode_answer(version, request, refused, error))
