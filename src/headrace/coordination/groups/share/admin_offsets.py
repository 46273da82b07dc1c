"""Admin requests that alter or delete a share group's offsets, and deletion of a share group.

Only a group without members can be changed so (else NON_EMPTY_GROUP): members would acknowledge
records in a state that no longer exists.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from headrace.broker.metadata_image import MetadataImage, TopicInfo
from headrace.coordination.groups.context import ShardContext
from headrace.coordination.groups.modern.changes import GroupEpoch
from headrace.coordination.groups.modern.ending import bury
from headrace.coordination.groups.modern.group import INITIAL_EPOCH
from headrace.coordination.groups.modern.group_change import Turn
from headrace.coordination.groups.share.group import ShareGroup, with_parts
from headrace.coordination.groups.share.model import StatePartitions, TopicState
from headrace.coordination.share.keys import ShareKey
from headrace.coordination.share.state_port import StateSummary
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import Offset, TopicPartition
from headrace.ports.callbacks import Done, gather, ignore_result

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.coordination.share.share_partitions import SharePartitions
    from headrace.coordination.share.state_port import ShareStatePort


class TopicOutcome(NamedTuple):
    """The result of a request for one topic, or for each of its partitions."""

    name: str
    topic_id: bytes | None
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    partitions: Mapping[int, ErrorCode] = {}


Summary = StateSummary | ApiError | None
"""A share partition's state summary; ApiError if it cannot be read, None if there is no state."""
Outcomes = tuple[ApiError | None, list[TopicOutcome]]
"""An error of the whole request, and the results by topic."""


class _Begin(NamedTuple):
    """A share partition's new start offset, with its topic's name."""

    name: str
    key: ShareKey
    start: int


class LogEnds(Protocol):
    """High watermarks of partitions that other brokers lead."""

    def ask(
        self, wanted: Sequence[TopicPartition], done: Done[Mapping[TopicPartition, Offset]]
    ) -> None:
        """Call `done` once with the high watermarks; unknown ones are left out."""


@dataclass(slots=True)
class OffsetsContext:
    """The interfaces that offset requests need in addition to the group's shard."""

    states: "ShareStatePort"
    partitions: "SharePartitions"
    image: Callable[[], MetadataImage]
    find: "Callable[[bytes, int], Partition]"
    log_ends: Callable[[], LogEnds] | None = None
    """Returns the client for high watermarks on other brokers; None: there are no other brokers."""


def read_all(
    context: OffsetsContext, keys: Sequence[ShareKey], done: Done[dict[ShareKey, Summary]]
) -> None:
    """Read the state summaries of all `keys` concurrently; call `done` with them by key."""
    answered = gather(len(keys), done)
    for key in keys:
        context.states.read_summary(key, partial(answered, key))


def alter(
    shard: ShardContext,
    context: OffsetsContext,
    group_id: str,
    wanted: Sequence[tuple[str, Mapping[int, int]]],
    done: Done[Outcomes],
) -> None:
    """Answer AlterShareGroupOffsets: restart share partitions at the given offsets."""
    try:
        _alterable(shard, group_id)
    except ApiError as error:
        done((error, []))
        return
    outcomes: list[TopicOutcome] = []
    begins: list[_Begin] = []
    for name, offsets in wanted:
        topic = context.image().topics.get(name)
        count = len(topic.partitions) if topic is not None else 0
        codes = {
            at: ErrorCode.NONE if 0 <= at < count else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            for at in offsets
        }
        outcomes.append(TopicOutcome(name, id_of(topic), partitions=codes))
        if topic is not None:
            good = [at for at in offsets if codes[at] is ErrorCode.NONE]
            begins += [
                _Begin(name, ShareKey(group_id, topic.topic_id, at), offsets[at]) for at in good
            ]

    def begun(error: ApiError | None) -> None:
        done((error, outcomes if error is None else []))

    if begins:
        keys = [begin.key for begin in begins]
        read_all(context, keys, lambda kept: _begin(shard, context, begins, kept, begun))
    else:
        begun(None)


def _begin(
    shard: ShardContext,
    context: OffsetsContext,
    begins: Sequence[_Begin],
    kept: Mapping[ShareKey, Summary],
    done: Done[ApiError | None],
) -> None:
    """Initialise the states in an epoch above all stored ones, after checking the group again.

    A member that joined since the request came keeps its partitions: the request fails.
    """
    group_id = begins[0].key.group
    failed = [summary for summary in kept.values() if isinstance(summary, ApiError)]
    try:
        group = _alterable(shard, group_id)
        if failed:
            raise failed[0]
    except ApiError as error:
        done(error)
        return
    founded = group_id not in shard.modern
    shard.modern[group_id] = group
    for begin in begins:
        context.partitions.forget(begin.key)
    known = [summary for summary in kept.values() if isinstance(summary, StateSummary)]
    epoch = max([group.epoch, *(summary.state_epoch + 1 for summary in known)])

    context.states.initialize(
        [(begin.key, begin.start) for begin in begins],
        epoch,
        partial(_begun, shard, group, begins, founded, done),
    )


def _begun(
    shard: ShardContext,
    group: ShareGroup,
    begins: Sequence[_Begin],
    founded: bool,
    done: Done[ApiError | None],
    error: ErrorCode | None,
) -> None:
    """Record the partitions as initialised in the group once their state is written."""
    present = shard.modern.get(group.group_id) is group
    if error is not None:
        if founded and present and group.epoch == INITIAL_EPOCH and not group.initialized:
            del shard.modern[group.group_id]  # The new group has no members and no records.
        done(ApiError(error))
        return
    if not present:
        done(not_found(group.group_id))  # The group was deleted in between.
        return
    parts: dict[tuple[str, bytes], list[int]] = {}
    for name, key, _ in begins:
        parts.setdefault((name, key.topic_id), []).append(key.partition)
    initialized = group.initialized
    for (name, topic_id), indexes in parts.items():
        initialized = with_parts(initialized, name, topic_id, indexes)
    group.dropped.difference_update((key.topic_id, key.partition) for _, key, _ in begins)
    turn = Turn(shard, group)
    turn.change(GroupEpoch(group.epoch, group.metadata_hash))
    turn.change(StatePartitions(initialized))
    turn.finish(lambda failed: done(_as_error(failed)))


def _alterable(shard: ShardContext, group_id: str) -> ShareGroup:
    """Return the group, a new one if it does not exist.

    ApiError GROUP_ID_NOT_FOUND for a group of another type, or NON_EMPTY_GROUP.
    """
    group = shard.modern.find(ShareGroup, group_id)
    if group is None and (group_id in shard.groups or group_id in shard.modern):
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
    group = group or ShareGroup(group_id)
    _check_empty(group)
    return group


def delete(
    shard: ShardContext,
    context: OffsetsContext,
    group_id: str,
    names: Sequence[str],
    done: Done[Outcomes],
) -> None:
    """Answer DeleteShareGroupOffsets: delete all state that the group has of these topics."""
    try:
        group = _group(shard, group_id)
        _check_empty(group)
    except ApiError as error:
        done((error, []))
        return
    outcomes: list[TopicOutcome] = []
    keys: list[ShareKey] = []
    for name in names:
        topic = context.image().topics.get(name)
        state = group.initialized.get(topic.topic_id) if topic is not None else None
        if topic is None or state is None:
            why = "There is no offset information to delete." if topic is not None else None
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            outcomes.append(TopicOutcome(name, id_of(topic), unknown, why))
            continue
        outcomes.append(TopicOutcome(name, topic.topic_id))
        keys += [ShareKey(group_id, topic.topic_id, at) for at in state.partitions]

    def deleted(error: ErrorCode | None) -> None:
        if error is not None:
            done((ApiError(error), []))
            return
        if shard.modern.get(group_id) is not group:
            done((not_found(group_id), []))  # The group was deleted in between.
            return
        gone = {key.topic_id for key in keys}
        turn = Turn(shard, group)
        if gone:
            turn.change(StatePartitions(_without(group, gone)))
        turn.finish(lambda failed: done((_as_error(failed), outcomes)))

    _drop(context, group, keys, deleted)


def delete_group(
    shard: ShardContext,
    context: OffsetsContext,
    group_id: str,
    done: Done[ErrorCode],
) -> None:
    """Answer DeleteGroups for a share group: delete its state, then the group."""
    try:
        group = _group(shard, group_id)
        _check_empty(group)
    except ApiError as error:
        done(error.code)
        return

    def deleted(error: ErrorCode | None) -> None:
        if error is None and shard.modern.get(group_id) is not group:
            error = ErrorCode.GROUP_ID_NOT_FOUND  # Another request deleted it in between.
        elif error is None and (group.members or group.makes_state):
            # A member joined in between, and state is initialised again.
            error = ErrorCode.NON_EMPTY_GROUP
        if error is not None:
            done(error)
            return
        bury(shard, group, lambda failed: done(failed or ErrorCode.NONE))

    _drop(context, group, [ShareKey(group_id, *part) for _, part in group.parts()], deleted)


def forget_topics(shard: ShardContext, topic_ids: frozenset[bytes]) -> None:
    """Remove deleted topics from the initialised topics of all groups."""
    for group in shard.modern.all_of(ShareGroup):
        if topic_ids.isdisjoint(group.initialized):
            continue
        turn = Turn(shard, group)
        turn.change(StatePartitions(_without(group, topic_ids)))
        # If it fails: no member can read a deleted topic.
        turn.finish(ignore_result)


def _drop(
    context: OffsetsContext,
    group: ShareGroup,
    keys: list[ShareKey],
    done: Done[ErrorCode | None],
) -> None:
    for key in keys:
        context.partitions.forget(key)
        group.dropped.add((key.topic_id, key.partition))
    context.states.delete(keys, done)


def _without(group: ShareGroup, topic_ids: Collection[bytes]) -> dict[bytes, TopicState]:
    """Return the group's initialised topics without `topic_ids`."""
    return {at: topic for at, topic in group.initialized.items() if at not in topic_ids}


def _as_error(code: ErrorCode | None) -> ApiError | None:
    return None if code is None else ApiError(code)


def id_of(topic: TopicInfo | None) -> bytes | None:
    return None if topic is None else topic.topic_id


def _group(shard: ShardContext, group_id: str) -> ShareGroup:
    group = shard.modern.find(ShareGroup, group_id)
    if group is None:
        raise not_found(group_id)
    return group


def not_found(group_id: str) -> ApiError:
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {group_id} not found.")


def _check_empty(group: ShareGroup) -> None:
    if group.members or group.makes_state:
        raise ApiError(ErrorCode.NON_EMPTY_GROUP, f"Group {group.group_id} is not empty.")
