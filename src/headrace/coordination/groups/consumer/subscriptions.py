"""What members subscribe to, and when that makes the group's epoch grow."""

from headrace.broker.metadata_image import MetadataImage
from headrace.coordination.groups.consumer import regex
from headrace.coordination.groups.consumer.group import ConsumerGroup
from headrace.coordination.groups.consumer.messages import HeartbeatRequest
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
from headrace.model.errors import ApiError, ErrorCode

REGEX_REFRESH_SECONDS_MIN = 1.0
"""New topics are matched at most so often in one group, however many heartbeats come."""


def updated(present: Subscription, request: HeartbeatRequest) -> Subscription:
    """Return what the member wants after `request`."""
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
    turn: Turn[ConsumerGroup], member_id: str, before: Subscription | None, after: Subscription
) -> bool:
    """Let the member want `after`; whether the topics it subscribes to may have changed."""
    if after == before:
        return False
    turn.change(MemberSubscription(member_id, after))
    old = "" if before is None else before.regex
    if old != after.regex:
        forget_regex(turn, old)
        if after.regex and after.regex not in turn.group.regexes:
            _resolve(turn, after.regex)
        return True
    return before is None or before.topics != after.topics


def forget_regex(turn: Turn[ConsumerGroup], expression: str) -> None:
    """Delete what `expression` stood for, if nobody subscribes by it any more."""
    group = turn.group
    if expression in group.regexes and not group.regex_members[expression]:
        turn.change(RegexTopics(expression, None))


def _resolve(turn: Turn[ConsumerGroup], expression: str) -> None:
    """Find the topics of an expression that is new to the group. ApiError: it has too many."""
    limit = turn.shard.limits.regexes_max
    if len(turn.group.regex_members) > limit:
        raise ApiError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"The group subscribes by {limit} regular expressions already.",
        )
    image = turn.shard.image()
    _stands_for(turn, expression, regex.matching(expression, _visible(image)))


def _stands_for(turn: Turn[ConsumerGroup], expression: str, topics: frozenset[str]) -> None:
    version, now_ms = turn.shard.image().structure, turn.shard.clock.wall_ms()
    turn.change(RegexTopics(expression, Resolved(topics, version, now_ms)))


def _visible(image: MetadataImage) -> frozenset[str]:
    return frozenset(name for name, topic in image.topics.items() if not topic.internal)


def refresh(turn: Turn[ConsumerGroup], changed: bool) -> None:
    """Let the group's epoch grow if its subscriptions (`changed`) or their topics did."""
    group = turn.group
    changed = _refresh_regexes(turn, turn.shard.image()) or changed or group.epoch <= INITIAL_EPOCH
    if epochs.refresh(turn, changed=changed) and group.has_legacy_topics:
        turn.change(LegacyTopics(False))


def _refresh_regexes(turn: Turn[ConsumerGroup], image: MetadataImage) -> bool:
    shard, group = turn.shard, turn.group
    if not group.regex_members:
        return False
    now = shard.clock.monotonic()
    age = now - group.regexes_at
    outdated = group.regexes_structure != image.structure
    if age < REGEX_REFRESH_SECONDS_MIN or not (
        outdated or age * 1000 >= shard.limits.consumer_regex_refresh_ms
    ):
        return False
    names = _visible(image)
    before, group.regex_topics = group.regex_topics, names
    seen, group.regexes_structure = group.regexes_structure, image.structure
    group.regexes_at = now
    turn.also(lambda: setattr(group, "regexes_structure", seen))
    turn.also(lambda: setattr(group, "regex_topics", before))
    others = False
    for expression in list(group.regex_members):
        known = group.regexes.get(expression)
        if known is None or before is None:
            topics = regex.matching(expression, names)
        else:
            # Names do not change: only those that came have to be looked at.
            topics = known.topics & names | regex.matching(expression, names - before)
        if known is None or known.topics != topics:
            _stands_for(turn, expression, topics)
            others = True
    return others


def topic_ids(shard: ShardContext, group: ConsumerGroup, member: Member) -> frozenset[bytes]:
    """Return the topics the member subscribes to, those that exist."""
    topics = shard.image().topics
    found = (topics.get(name) for name in group.topics_of(member.subscription))
    return frozenset(topic.topic_id for topic in found if topic is not None)
