"""Migration of a classic group to a consumer group and back.

A classic group is upgraded when a member of the newer protocol joins, and downgraded when the last
of these leaves. Members, offsets and assignments are kept.
"""

from collections.abc import Collection

from headrace.broker.metadata_image import MetadataImage
from headrace.coordination.groups import records as classic_records
from headrace.coordination.groups.assignors.spec import Partitions
from headrace.coordination.groups.classic import rebalance
from headrace.coordination.groups.classic.group import ClassicGroup
from headrace.coordination.groups.classic.member import ClassicMember
from headrace.coordination.groups.classic.states import GroupState
from headrace.coordination.groups.classic.subscription import CONSUMER_PROTOCOL
from headrace.coordination.groups.consumer.group import NOTHING, ConsumerGroup
from headrace.coordination.groups.consumer.model import (
    ClassicPart,
    MemberStanding,
    MemberSubscription,
    Standing,
    Subscription,
)
from headrace.coordination.groups.context import ShardContext
from headrace.coordination.groups.modern import ending
from headrace.coordination.groups.modern.changes import GroupEpoch, MemberTarget, TargetEpoch
from headrace.coordination.groups.modern.group_change import Turn
from headrace.model.errors import ApiError, ErrorCode, Malformed
from headrace.ports.callbacks import Done
from headrace.wire.kafka import consumer_protocol

BIDIRECTIONAL, UPGRADE, DOWNGRADE = "bidirectional", "upgrade", "downgrade"


def upgrade(shard: ShardContext, classic: ClassicGroup) -> Turn[ConsumerGroup]:
    """Convert the classic group to a consumer group. ApiError GROUP_ID_NOT_FOUND if not allowed.

    An empty group is always upgraded; one with members if they are consumers and
    `group.consumer.migration.policy` allows it.
    """
    group = ConsumerGroup(classic.group_id)
    turn = Turn(shard, group)
    if classic.state is not GroupState.EMPTY or classic.members:
        _check_upgrade(shard, classic)
    turn.write((classic_records.group_key(classic.group_id), None))
    _leave_classics(turn, classic)
    ending.enter(turn)
    try:
        if classic.members:
            _take_members(turn, classic)
    except Malformed as error:
        turn.take_back()
        raise _not_a_consumer_group(classic, f" Its members' bytes: {error}") from None
    return turn


def _check_upgrade(shard: ShardContext, classic: ClassicGroup) -> None:
    limits = shard.limits
    if (
        limits.consumer_migration_policy not in (BIDIRECTIONAL, UPGRADE)
        or not classic.is_consumer
        or len(classic.members) > limits.consumer_max_size
    ):
        raise _not_a_consumer_group(classic)


def _not_a_consumer_group(classic: ClassicGroup, more: str = "") -> ApiError:
    return ApiError(
        ErrorCode.GROUP_ID_NOT_FOUND, f"Group {classic.group_id} is not a consumer group.{more}"
    )


def _leave_classics(turn: Turn[ConsumerGroup], classic: ClassicGroup) -> None:
    shard = turn.shard
    del shard.groups[classic.group_id]
    turn.also(lambda: shard.groups.setdefault(classic.group_id, classic))
    # Members that wait for the next generation are told to rejoin, and reach the new group.
    again = ErrorCode.REBALANCE_IN_PROGRESS
    turn.after(lambda: rebalance.bury(classic, shard.clock.wall_ms(), again))


def _take_members(turn: Turn[ConsumerGroup], classic: ClassicGroup) -> None:
    shard, generation = turn.shard, classic.generation
    image = shard.image()
    for member in classic.members.values():
        protocol = classic.protocol_name or member.protocols[0][0]
        asked = consumer_protocol.read_subscription(member.metadata(protocol))
        given = by_id(image, consumer_protocol.read_assignment(member.assignment))
        turn.change(
            MemberSubscription(
                member.member_id,
                Subscription(
                    member.instance_id,
                    asked.rack_id,
                    member.client_id,
                    member.client_host,
                    asked.topics,
                    "",
                    member.rebalance_timeout_ms,
                    None,
                    ClassicPart(member.session_timeout_ms, member.protocols),
                ),
            )
        )
        turn.change(MemberTarget(member.member_id, given))
        owned = {topic: dict.fromkeys(parts, generation) for topic, parts in given.items()}
        turn.change(
            MemberStanding(member.member_id, Standing(generation, generation, assigned=owned))
        )
    turn.change(GroupEpoch(generation, image.hash_of(turn.group.subscribed_topics())))
    turn.change(TargetEpoch(generation))


def by_id(image: MetadataImage, topics: consumer_protocol.TopicNumbers) -> Partitions:
    """Convert partitions by topic name to partitions by topic id; unknown topics are left out."""
    found: dict[bytes, frozenset[int]] = {}
    for name, parts in topics:
        topic = image.topics.get(name)
        if topic is not None and parts:
            found[topic.topic_id] = found.get(topic.topic_id, frozenset()) | frozenset(parts)
    return found


def by_name(image: MetadataImage, partitions: Partitions) -> dict[str, list[int]]:
    """Convert partitions by topic id to partitions by topic name; unknown topics are left out."""
    found: dict[str, list[int]] = {}
    for topic_id, parts in partitions.items():
        topic = image.topics_by_id.get(topic_id)
        if topic is not None:
            found[topic.name] = sorted(parts)
    return found


# --- downgrade -----------------------------------------------------------------------------------


def may_downgrade(shard: ShardContext, group: ConsumerGroup, without: Collection[str]) -> bool:
    """Return whether the group must become a classic one once the members `without` have left."""
    left = len(group.members) - len(without)
    classic_gone = sum(group.members[member_id].is_classic for member_id in without)
    return (
        0 < left == group.classic_members - classic_gone
        and left <= shard.limits.max_size
        and shard.limits.consumer_migration_policy in (BIDIRECTIONAL, DOWNGRADE)
    )


def downgrade(turn: Turn[ConsumerGroup], without: Collection[str]) -> None:
    """Convert the group to a classic one without the members `without`, and start a rebalance."""
    shard, group = turn.shard, turn.group
    classic = _as_classic(shard, group, without)
    _replace(turn, classic)
    assignments = {member.member_id: member.assignment for member in classic.members.values()}
    turn.write(classic_records.group_metadata(classic, assignments))

    def go_on() -> None:
        group.timers.end()
        for member in classic.members.values():
            rebalance.keep_alive(shard, classic, member)
        rebalance.prepare(shard, classic)

    turn.after(go_on)


def replace_empty(shard: ShardContext, group: ConsumerGroup, done: Done[ErrorCode | None]) -> None:
    """Convert a group without members to an empty classic one; call `done` once that is committed.

    The classic group is in the same batch as the tombstones, so that its offsets always have a
    group: after a crash, and for requests that arrive before the batch is committed.
    """
    turn = Turn(shard, group)
    classic = ClassicGroup(group.group_id, shard.clock.wall_ms())
    _replace(turn, classic)
    turn.write(classic_records.group_metadata(classic, {}))
    turn.after(group.timers.end)
    turn.finish(done)


def _replace(turn: Turn[ConsumerGroup], classic: ClassicGroup) -> None:
    """Put `classic` in the group's place, and queue the group's tombstones."""
    shard, group = turn.shard, turn.group
    group_id = group.group_id
    turn.write(*map(group.record, group.tombstones()))
    del shard.modern[group_id]
    shard.groups[group_id] = classic

    def back() -> None:
        del shard.groups[group_id]
        shard.modern[group_id] = group

    turn.also(back)


def _as_classic(
    shard: ShardContext, group: ConsumerGroup, without: Collection[str]
) -> ClassicGroup:
    classic = ClassicGroup(
        group.group_id,
        shard.clock.wall_ms(),
        generation=group.epoch,
        protocol_type=CONSUMER_PROTOCOL,
    )
    image = shard.image()
    for member in group.members.values():
        part = member.subscription.classic
        if member.member_id in without or part is None:
            continue
        given = by_name(image, group.target.get(member.member_id, NOTHING))
        subscription = member.subscription
        classic.add(
            ClassicMember(
                member.member_id,
                subscription.instance_id,
                subscription.client_id,
                subscription.client_host,
                subscription.rebalance_timeout_ms,
                part.session_timeout_ms,
                CONSUMER_PROTOCOL,
                part.protocols,
                consumer_protocol.assignment(
                    consumer_protocol.version_of(part.protocols[0][1]), given
                ),
            )
        )
    classic.protocol_name = classic.selected_protocol()
    classic.state = GroupState.STABLE
    classic.refresh_subscriptions()
    return classic
