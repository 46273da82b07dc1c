"""TxnOffsetCommit (key 28, v0-v5): commit a group's offsets with a transaction.

- Answered when they are committed in `__consumer_offsets`; they take effect with the marker of a
  commit.
- Up to v4 the group's partition must be in the transaction (AddOffsetsToTxn), else
  INVALID_TXN_STATE. From v5 on (KIP-890) this request adds it.
- The member is checked as in OffsetCommit if the request names one (KIP-447).

Versions: v2 leader epoch · v3 flexible, member and generation · v4 TRANSACTION_ABORTABLE · v5 by
itself
"""

from headrace.coordination.groups.messages import CommitRequest, OffsetToCommit
from headrace.coordination.transactions.producers import TV2
from headrace.frontends.kafka.authentication.authorisation import (
    READ_GROUP,
    READ_TOPIC,
    WRITE_TRANSACTION,
    refusal,
    refused,
)
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, maker
from headrace.frontends.kafka.groups import member_owners
from headrace.frontends.kafka.transactions.transactional import producer_of, resolve
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import OFFSETS_TOPIC, TopicPartition
from headrace.net.pending import Pending

_ADDS_SINCE = 5
_NOT_AVAILABLE_BEFORE = 2
_Refused = dict[tuple[int, int], ErrorCode]


def handle(context: RequestContext, request: Entity) -> Pending:
    """Answer TxnOffsetCommit once the offsets are committed, or with errors."""
    pending = Pending()
    coordinators = context.coordinators
    offsets, not_kept = _sorted(context, request)

    def done(error: ErrorCode) -> None:
        _answer(context, request, pending, not_kept, error)

    if not request.transactional_id or not request.group_id:
        done(ErrorCode.INVALID_GROUP_ID if request.transactional_id else ErrorCode.INVALID_REQUEST)
        return pending
    forbidden = refusal(context, WRITE_TRANSACTION, request.transactional_id)
    forbidden = forbidden or refusal(context, READ_GROUP, request.group_id)
    if forbidden is not None:
        _answer(context, request, pending, {}, forbidden.code)
        return pending
    if member_owners.is_anothers(context, request.group_id, getattr(request, "member_id", "")):
        _answer(context, request, pending, {}, ErrorCode.UNKNOWN_MEMBER_ID)
        return pending
    if not offsets:
        done(ErrorCode.NONE)
        return pending
    commit = CommitRequest(
        request.group_id,
        getattr(request, "generation_id", -1),
        getattr(request, "member_id", ""),
        getattr(request, "group_instance_id", None),
        offsets,
    )
    who = producer_of(request)
    try:
        coordinators.groups.shard(request.group_id)
    except ApiError as error:
        done(error.code)
        return pending

    def added(error: ApiError | None) -> None:
        if error is None:
            coordinators.groups.commit_in_transaction(commit, who.producer_id, who.epoch, done)
        else:
            done(error.code)

    place = TopicPartition(OFFSETS_TOPIC, coordinators.groups.partition_for(request.group_id))
    if context.version >= _ADDS_SINCE:
        coordinators.all_transactions.add(request.transactional_id, who, [place], TV2, added)
        return pending

    def verified(errors: dict[TopicPartition, ApiError]) -> None:
        added(errors.get(place))

    coordinators.all_transactions.verify(request.transactional_id, who, [place], verified)
    return pending


def _sorted(context: RequestContext, request: Entity) -> tuple[list[OffsetToCommit], _Refused]:
    """Return the offsets to commit, and the errors of others by their places in the request."""
    offsets: list[OffsetToCommit] = []
    not_kept: _Refused = {}
    forbidden = refused(context, READ_TOPIC, (asked.name for asked in request.topics))
    topics = context.broker.image.topics
    longest = context.coordinators.groups.limits.offset_metadata_max_bytes
    for at, asked in enumerate(request.topics):
        topic = topics.get(asked.name)
        count = 0 if topic is None else len(topic.partitions)
        for number, partition in enumerate(asked.partitions):
            metadata = partition.committed_metadata or ""
            if asked.name in forbidden:
                not_kept[at, number] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif not 0 <= partition.partition_index < count:
                not_kept[at, number] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif len(metadata) > longest:
                not_kept[at, number] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                epoch = getattr(partition, "committed_leader_epoch", -1)
                offsets.append(
                    OffsetToCommit(
                        asked.name,
                        partition.partition_index,
                        partition.committed_offset,
                        epoch,
                        metadata,
                    )
                )
    return offsets, not_kept


def _answer(
    context: RequestContext,
    request: Entity,
    pending: Pending,
    not_kept: _Refused,
    error: ErrorCode,
) -> None:
    loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if loading and context.version < _NOT_AVAILABLE_BEFORE:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE  # older clients do not retry the other error
    make = maker(context)
    topics = tuple(
        make(
            "TxnOffsetCommitResponseTopic",
            name=asked.name,
            partitions=tuple(
                make(
                    "TxnOffsetCommitResponsePartition",
                    partition_index=partition.partition_index,
                    error_code=not_kept.get((at, number), error),
                )
                for number, partition in enumerate(asked.partitions)
            ),
        )
        for at, asked in enumerate(request.topics)
    )
    resolve(context, pending, topics=topics)
