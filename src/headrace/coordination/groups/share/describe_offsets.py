"""DescribeShareGroupOffsets: start offset and lag of a share group's partitions."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headrace.coordination.groups.context import ShardContext
from headrace.coordination.groups.share.admin_offsets import (
    OffsetsContext,
    Summary,
    id_of,
    not_found,
    read_all,
)
from headrace.coordination.groups.share.group import ShareGroup
from headrace.coordination.share.keys import NOT_SET, ShareKey
from headrace.coordination.share.state_port import StateSummary
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import Offset, TopicPartition
from headrace.ports.callbacks import Done

NO_LAG = -1


class OffsetSeen(NamedTuple):
    """A share group's start offset and lag in one partition; -1 if not known."""

    partition: int
    start: int = NOT_SET
    leader_epoch: int = 0
    lag: int = NO_LAG
    error: ErrorCode = ErrorCode.NONE


class TopicSeen(NamedTuple):
    """A topic of a share group with its described partitions."""

    name: str
    topic_id: bytes | None
    partitions: list[OffsetSeen]


def describe(
    shard: ShardContext,
    context: OffsetsContext,
    group_id: str,
    wanted: Sequence[tuple[str, Sequence[int]]] | None,
    done: Done[list[TopicSeen] | ApiError],
) -> None:
    """Answer DescribeShareGroupOffsets for one group; `wanted` None: all partitions with state.

    ApiError GROUP_ID_NOT_FOUND if `wanted` is None and the group does not exist.
    """
    asked: list[tuple[str, bytes | None, Sequence[int]]]
    if wanted is None:
        group = shard.modern.find(ShareGroup, group_id)
        if group is None:
            done(not_found(group_id))
            return
        asked = [(state.name, at, state.partitions) for at, state in group.initialized.items()]
    else:
        topics = context.image().topics
        asked = [(name, id_of(topics.get(name)), indexes) for name, indexes in wanted]
    keys = [
        ShareKey(group_id, topic_id, at)
        for _, topic_id, indexes in asked
        if topic_id is not None
        for at in indexes
    ]

    def read(kept: Mapping[ShareKey, Summary]) -> None:
        def known(ends: Mapping[TopicPartition, Offset]) -> None:
            done([_topic_seen(group_id, topic, kept, ends) for topic in asked])

        begun = [key for key in keys if _has_begun(kept[key])]
        _find_ends(context, begun, {at: name for name, at, _ in asked if at}, known)

    read_all(context, keys, read)


def _has_begun(kept: Summary) -> bool:
    return isinstance(kept, StateSummary) and kept.start != NOT_SET


def _find_ends(
    context: OffsetsContext,
    keys: Sequence[ShareKey],
    names: Mapping[bytes, str],
    done: Done[Mapping[TopicPartition, Offset]],
) -> None:
    """Call `done` with the partitions' high watermarks, local or from their leaders."""
    ends: dict[TopicPartition, Offset] = {}
    elsewhere: list[TopicPartition] = []
    for key in keys:
        place = TopicPartition(names[key.topic_id], key.partition)
        try:
            ends[place] = context.find(key.topic_id, key.partition).high_watermark
        except ApiError:
            elsewhere.append(place)
    if elsewhere and context.log_ends is not None:
        context.log_ends().ask(elsewhere, lambda found: done({**ends, **found}))
    else:
        done(ends)


def _topic_seen(
    group_id: str,
    topic: tuple[str, bytes | None, Sequence[int]],
    kept: Mapping[ShareKey, Summary],
    ends: Mapping[TopicPartition, Offset],
) -> TopicSeen:
    name, topic_id, indexes = topic
    if topic_id is None:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return TopicSeen(name, None, [OffsetSeen(at, error=unknown) for at in indexes])
    seen = []
    for at in indexes:
        end = ends.get(TopicPartition(name, at))
        seen.append(_seen(at, kept[ShareKey(group_id, topic_id, at)], end))
    return TopicSeen(name, topic_id, seen)


def _seen(index: int, kept: Summary, end: Offset | None) -> OffsetSeen:
    if isinstance(kept, ApiError):
        return OffsetSeen(index, error=kept.code)
    if kept is None or kept.start == NOT_SET:
        return OffsetSeen(index)
    lag = NO_LAG if end is None else max(end - kept.start - kept.complete, 0)
    return OffsetSeen(index, kept.start, max(kept.leader_epoch, 0), lag)
