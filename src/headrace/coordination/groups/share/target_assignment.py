"""Who in a share group is to read what, made anew when the group's epoch has grown.

Made at most once in `share.assignment.interval.ms`, however many members come and go; the first one
of a group is made at once. Until then members keep what they have, and who is new has nothing.
A large group's assignor works on a thread.
"""

from functools import partial
from typing import TYPE_CHECKING

from headrace.broker.metadata_image import MetadataImage
from headrace.coordination.groups.background_assigning import begin, is_made_at_once
from headrace.coordination.groups.share import records
from headrace.coordination.groups.share.assignor import Part, assign
from headrace.coordination.groups.share.group import ShareGroup

if TYPE_CHECKING:
    from headrace.coordination.groups.context import ShardContext
    from headrace.coordination.groups.share.context import ShareContext
    from headrace.coordination.runtime.journal import KeyValue
    from headrace.model.errors import ErrorCode

Targets = dict[str, frozenset[Part]]


def rebalance(
    shard: "ShardContext", context: "ShareContext", group: ShareGroup, *, force: bool
) -> "list[KeyValue]":
    """A new epoch if members, subscriptions or topics have changed; its targets, or a date."""
    changes: list[KeyValue] = []
    image = context.image()
    if force or group.image_structure != image.structure:
        group.image_structure = image.structure
        digest = image.hash_of(group.subscribed())
        if force or digest != group.metadata_hash:
            group.epoch += 1
            group.metadata_hash = digest
            changes.append(records.epoch(group))
    return changes + _catch_up(shard, context, group)


def _catch_up(
    shard: "ShardContext", context: "ShareContext", group: ShareGroup
) -> "list[KeyValue]":
    """Bring the targets to the group's epoch, now or when the interval is over."""
    if group.epoch <= group.target_epoch or not group.members or group.is_assigning:
        return []
    interval_ms = context.settings.assignment_ms(group.group_id)
    wait_ms = group.target_at_ms + interval_ms - shard.clock.wall_ms()
    if wait_ms <= 0:
        return _assign(shard, context, group)
    if group.assigning is None:
        group.assigning = shard.deadlines.deadline(partial(_due, shard, context, group))
        # A clock that was put back must not hold assignments up.
        group.assigning.set(min(wait_ms, interval_ms) / 1000)
    return []


def _due(shard: "ShardContext", context: "ShareContext", group: ShareGroup) -> None:
    group.assigning = None
    if shard.share.get(group.group_id) is not group or group.is_assigning:
        return
    if group.members and group.epoch > group.target_epoch:
        _write(shard, _assign(shard, context, group))


def _assign(shard: "ShardContext", context: "ShareContext", group: ShareGroup) -> "list[KeyValue]":
    """The new targets; none yet where a thread is to make them."""
    group.stop_assigning()
    wanted = _question(group, context.image())
    parts = sum(map(len, set(wanted.values())))
    if is_made_at_once(group, len(wanted) + parts, context.settings.offloads(group.group_id)):
        return _take(shard, group, assign(wanted, group.target), group.epoch)
    epoch = group.epoch

    def take(found: Targets) -> None:
        changes = _take(shard, group, found, epoch)
        # Who came or went meanwhile is for the next one.
        _write(shard, changes + _catch_up(shard, context, group))

    work = partial(assign, wanted, dict(group.target))
    done = begin(group, shard.share.get, take)
    # Not before what is decided in this turn has gone to the log.
    shard.clock.call_later(0, lambda: shard.run(work, done))
    return []


def _question(group: ShareGroup, image: MetadataImage) -> "dict[str, frozenset[Part]]":
    """What each member may read. Members with equal subscriptions share one set."""
    wanted = {one.member_id: one.topics for one in group.members.values()}
    parts_of = {
        topics: frozenset(part for name in topics for part in _parts_with_state(group, image, name))
        for topics in set(wanted.values())
    }
    return {member_id: parts_of[topics] for member_id, topics in wanted.items()}


def _take(shard: "ShardContext", group: ShareGroup, found: Targets, epoch: int) -> "list[KeyValue]":
    """Let these be the targets of `epoch`, for those who are still there."""
    former, group.target = (
        group.target,
        {member_id: parts for member_id, parts in found.items() if member_id in group.members},
    )
    group.target_epoch, group.target_at_ms = epoch, shard.clock.wall_ms()
    changes = [
        records.target(group.group_id, member_id, parts)
        for member_id, parts in group.target.items()
        if former.get(member_id) != parts
    ]
    return [*changes, records.target_epoch(group)]


def _parts_with_state(group: ShareGroup, image: MetadataImage, name: str) -> list[Part]:
    topic = image.topics.get(name)
    if topic is None:
        return []
    return [(topic.topic_id, index) for index in group.with_state(topic.topic_id)]


def _write(shard: "ShardContext", changes: "list[KeyValue]") -> None:
    if changes:
        shard.journal.append_now(changes, _not_waited_for)


def _not_waited_for(error: "ErrorCode | None") -> None:
    """As with a heartbeat's own changes: the next one goes on from what there is."""
