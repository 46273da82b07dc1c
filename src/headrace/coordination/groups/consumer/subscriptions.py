"""Subscriptions of members, and when they make the group epoch grow."""

from headrace.broker.metadata_image import MetadataImage
from headrace.coordination.groups.consumer.group import ConsumerGroup
from headrace.coordination.groups.consumer.messages import HeartbeatRequest, Permissions
from headrace.coordination.groups.consumer.model import (
    LegacyTopics,
    Member,
    MemberSubscription,
    RegexTopics,
    Resolved,
    Subscription,
)
from headrace.coordination.groups.context import ShardContext
from headrace.coordination.groups.modern import epochs
from headrace.coordination.groups.modern.group import INITIAL_EPOCH
from headrace.coordination.groups.modern.group_change import Turn
from headrace.model import regex
from headrace.model.errors import ApiError, ErrorCode

REGEX_REFRESH_SECONDS_MIN = 1.0
"""Least time in seconds between two matchings of regular expressions in a group."""


def updated(present: Subscription, request: HeartbeatRequest) -> Subscription:
    """Return the member's subscription after `request`."""
    timeout = request.rebalance_timeout_ms
    topics = present.topics if request.topics is None else request.topics
    return Subscription(
        request.instance_id if request.instance_id is not None else present.instance_id,
        request.rack_id if request.rack_id is not None else present.rack_id,
        request.client_id,
        request.client_host,
        present.topics if topics == present.topics else topics,
        present.regex if request.regex is None else request.regex,
        present.rebalance_timeout_ms if timeout == -1 else timeout,
        request.assignor if request.assignor is not None else present.assignor,
    )


def take(
    turn: Turn[ConsumerGroup],
    member_id: str,
    before: Subscription | None,
    after: Subscription,
    permissions: Permissions | None = None,
) -> bool:
    """Store subscription `after`; return whether the member's topics may have changed."""
    if after == before:
        return False
    turn.change(MemberSubscription(member_id, after))
    old = "" if before is None else before.regex
    if old != after.regex:
        forget_regex(turn, old)
        if after.regex and after.regex not in turn.group.regexes:
            _resolve(turn, after.regex, permissions)
        return True
    return before is None or before.topics != after.topics


def forget_regex(turn: Turn[ConsumerGroup], expression: str) -> None:
    """Delete the topics stored for `expression` if no member subscribes by it any longer."""
    group = turn.group
    if expression in group.regexes and not group.regex_members[expression]:
        turn.change(RegexTopics(expression, None))


def _resolve(turn: Turn[ConsumerGroup], expression: str, permissions: Permissions | None) -> None:
    """Match a regular expression that is new to the group. ApiError: the group has too many."""
    limit = turn.shard.limits.regexes_max
    if len(turn.group.regex_members) > limit:
        raise ApiError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"The group subscribes by {limit} regular expressions already.",
        )
    topics = _matching(expression, _visible(turn.shard.image()), permissions)
    _stands_for(turn, expression, topics)


def _matching(
    expression: str, names: frozenset[str], permissions: Permissions | None
) -> frozenset[str]:
    """Return the names that match and that the member may see."""
    matching = regex.matching(expression, names)
    return matching if permissions is None else frozenset(filter(permissions.may_see, matching))


def _stands_for(turn: Turn[ConsumerGroup], expression: str, topics: frozenset[str]) -> None:
    version, now_ms = turn.shard.image().structure, turn.shard.clock.wall_ms()
    turn.change(RegexTopics(expression, Resolved(topics, version, now_ms)))


def _visible(image: MetadataImage) -> frozenset[str]:
    return frozenset(name for name, topic in image.topics.items() if not topic.internal)


def refresh(turn: Turn[ConsumerGroup], changed: bool) -> None:
    """Increase the group epoch if subscriptions (`changed`) or their topics changed."""
    group = turn.group
    changed = changed or group.epoch <= INITIAL_EPOCH
    if epochs.refresh(turn, changed=changed) and group.has_legacy_topics:
        turn.change(LegacyTopics(False))


def refresh_regexes(turn: Turn[ConsumerGroup], permissions: Permissions | None) -> bool:
    """Match the group's regular expressions again if topics or ACLs changed; return whether any
    result did.

    All subscribers of an expression share its result: the topics that the member of this heartbeat
    may see, as in Kafka.
    """
    shard, group, image = turn.shard, turn.group, turn.shard.image()
    if not group.regex_members:
        return False
    now = shard.clock.monotonic()
    age = now - group.regexes_at
    rules = None if permissions is None else permissions.version
    other_rules = group.regexes_permissions != rules
    outdated = group.regexes_structure != image.structure or other_rules
    if age < REGEX_REFRESH_SECONDS_MIN or not (
        outdated or age * 1000 >= shard.limits.consumer_regex_refresh_ms
    ):
        return False
    names = _visible(image)
    before, group.regex_topics = group.regex_topics, names
    seen, group.regexes_structure = group.regexes_structure, image.structure
    group.regexes_at = now
    former, group.regexes_permissions = group.regexes_permissions, rules
    turn.also(lambda: setattr(group, "regexes_permissions", former))
    turn.also(lambda: setattr(group, "regexes_structure", seen))
    turn.also(lambda: setattr(group, "regex_topics", before))
    others = False
    for expression in list(group.regex_members):
        known = group.regexes.get(expression)
        if known is None or before is None or other_rules:
            topics = _matching(expression, names, permissions)
        else:
            # Known names keep their result: only new names need matching.
            topics = known.topics & names | _matching(expression, names - before, permissions)
        if known is None or known.topics != topics:
            _stands_for(turn, expression, topics)
            others = True
    return others


def topic_ids(shard: ShardContext, group: ConsumerGroup, member: Member) -> frozenset[bytes]:
    """Return the ids of the existing topics that the member subscribes to."""
    topics = shard.image().topics
    found = (topics.get(name) for name in group.topics_of(member.subscription))
    return frozenset(topic.topic_id for topic in found if topic is not None)
