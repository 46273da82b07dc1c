"""A consumer group: the state that its records in `__consumer_offsets` add up to.

`apply` is the only way to change it, for replayed and for new changes alike. It also maintains all
derived state: partition owners, subscriber counts, members behind the target.
"""

from collections import Counter
from collections.abc import Iterable

from headrace.coordination.groups.assignors.spec import Partitions
from headrace.coordination.groups.consumer import records
from headrace.coordination.groups.consumer.model import (
    NEW,
    UNASSIGNED,
    Change,
    ConsumerGroupState,
    LegacyTopics,
    Member,
    MemberStanding,
    MemberState,
    MemberSubscription,
    OwnChange,
    OwnedPartitions,
    RegexTopics,
    Resolved,
    Subscription,
)
from headrace.coordination.groups.modern.changes import GroupEpoch, MemberTarget, TargetEpoch
from headrace.coordination.groups.modern.group import ModernGroup
from headrace.model.errors import ApiError, ErrorCode
from headrace.shards.journal import KeyValue

NOTHING: Partitions = {}
NOT_OWNED = -1
_S = ConsumerGroupState


class ConsumerGroup(ModernGroup[Partitions, OwnChange]):
    """A consumer group (KIP-848). Only `apply` changes it."""

    kind = "consumer"

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.has_legacy_topics = False
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        """Member id of each static member, by instance id."""
        self.regexes: dict[str, Resolved] = {}
        self.regex_members: Counter[str] = Counter()
        self.assignors: Counter[str] = Counter()
        self.classic_members = 0
        # Not stored in the log: the inputs of the last evaluation of regular expressions.
        self.regexes_structure = -1
        self.regex_topics: frozenset[str] | None = None
        """All topics that existed when the regular expressions were last matched; None: not yet
        matched."""
        self.regexes_permissions: int | None = None
        """Version of the ACLs at the last matching; None: all topics were visible to every user."""
        self.regexes_at = float("-inf")
        """Monotonic time in seconds when all regular expressions were last matched."""
        self._topic_members: Counter[str] = Counter()
        self._owners: dict[bytes, dict[int, str]] = {}
        self._behind: set[str] | None = None

    # What is so

    @property
    def state(self) -> ConsumerGroupState:
        """The group's state, as reported to clients."""
        if not self.members:
            return _S.EMPTY
        if self.epoch > self.target_epoch:
            return _S.ASSIGNING
        return _S.RECONCILING if self._not_reconciled() else _S.STABLE

    def _not_reconciled(self) -> set[str]:
        if self._behind is None:
            self._behind = {
                member.member_id
                for member in self.members.values()
                if not member.is_reconciled_to(self.target_epoch)
            }
        return self._behind

    def owner_epoch(self, topic_id: bytes, partition: int) -> int:
        """Return the epoch of the member that owns the partition, or still has to revoke it;
        NOT_OWNED."""
        owner = self._owners.get(topic_id, {}).get(partition)
        return NOT_OWNED if owner is None else self.members[owner].standing.epoch

    def owner(self, topic_id: bytes, partition: int) -> str | None:
        """Return the id of the member that owns the partition, or still has to revoke it; None:
        free."""
        return self._owners.get(topic_id, {}).get(partition)

    def subscribed_topics(self) -> set[str]:
        """Return all topics that any member subscribes to, by name or by regular expression."""
        topics = set(self._topic_members)
        for regex in self.regex_members:
            resolved = self.regexes.get(regex)
            if resolved is not None:
                topics |= resolved.topics
        return topics

    def subscribes(self, topic: str) -> bool:
        """Return whether a member may be reading `topic`, so that its offsets must stay."""
        return topic in self._topic_members or any(
            topic in regex.topics for regex in self.regexes.values()
        )

    def topics_of(self, subscription: Subscription) -> frozenset[str]:
        """Return the topics of a subscription.

        A regular expression that was not matched yet adds no topic.
        """
        resolved = self.regexes.get(subscription.regex) if subscription.regex else None
        return subscription.topics if resolved is None else subscription.topics | resolved.topics

    def assignor(self, default: str) -> str:
        """Return the assignor that most members request; ties are broken by name, so all brokers
        agree."""
        if not self.assignors:
            return default
        return max(sorted(self.assignors), key=self.assignors.__getitem__)

    def static_member(self, instance_id: str | None) -> Member | None:
        """Return the static member with this instance id; None if unknown."""
        holder = None if instance_id is None else self.static_members.get(instance_id)
        return None if holder is None else self.members[holder]

    def member(self, member_id: str) -> Member:
        """Return the member; ApiError UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member {member_id} is not a member of group {self.group_id}.",
            )
        return member

    # What changes it

    def apply(self, change: Change) -> Change:
        """Apply `change` and return the change that undoes it."""
        match change:
            case GroupEpoch():
                return self._set_epoch(change)
            case LegacyTopics():
                former, self.has_legacy_topics = self.has_legacy_topics, change.present
                return LegacyTopics(former)
            case TargetEpoch():
                return self._set_target_epoch(change)
            case MemberSubscription():
                return self._set_subscription(change)
            case MemberTarget():
                return self._set_target(change)
            case MemberStanding():
                return self._set_standing(change)
            case RegexTopics():
                return self._set_regex(change)

    def record(self, change: Change) -> KeyValue:
        return records.encode(self.group_id, change)

    def tombstones(self) -> Iterable[Change]:
        for member_id in self.members:
            yield MemberStanding(member_id, None)
            yield MemberTarget(member_id, None)
            yield MemberSubscription(member_id, None)
        for regex in self.regexes:
            yield RegexTopics(regex, None)
        yield TargetEpoch(None)
        if self.has_legacy_topics:
            yield LegacyTopics(False)
        yield GroupEpoch(None)

    def _set_target_epoch(self, change: TargetEpoch) -> TargetEpoch:
        self._behind = None
        return super()._set_target_epoch(change)

    def _set_subscription(self, change: MemberSubscription) -> Change:
        member_id, after = change
        member = self.members.get(member_id)
        before = None if member is None else member.subscription
        if before is not None:
            self._count(member_id, before, -1)
        if after is not None:
            standing = NEW if member is None else member.standing
            self._put(Member(member_id, after, standing))
            self._count(member_id, after, 1)
        elif member is not None:
            self._release(member_id, member.standing.assigned)
            self._release(member_id, member.standing.pending)
            del self.members[member_id]
            if self._behind is not None:
                self._behind.discard(member_id)
        return MemberSubscription(member_id, before)

    def _count(self, member_id: str, subscription: Subscription, by: int) -> None:
        topics, sign = self._topic_members, by
        for topic in subscription.topics:
            left = topics[topic] + sign
            if left:
                topics[topic] = left
            else:
                del topics[topic]
        if subscription.regex:
            _add(self.regex_members, subscription.regex, by)
        if subscription.assignor is not None:
            _add(self.assignors, subscription.assignor, by)
        if subscription.classic is not None:
            self.classic_members += by
        instance = subscription.instance_id
        if instance is not None:
            if by > 0:
                self.static_members[instance] = member_id
            elif self.static_members.get(instance) == member_id:
                del self.static_members[instance]

    def _set_standing(self, change: MemberStanding) -> Change:
        member_id, after = change
        member = self.members.get(member_id)
        if member is None and after is None:
            return change
        if member is None:
            # Compaction may keep this record ahead of the subscription's.
            self._put(Member(member_id, Subscription(), NEW))
            self._set_standing(change)
            return MemberSubscription(member_id, None)
        before = member.standing
        standing = UNASSIGNED if after is None else after
        self._release(member_id, before.assigned)
        self._release(member_id, before.pending)
        self._own(member_id, standing.assigned)
        self._own(member_id, standing.pending)
        self._put(Member(member_id, member.subscription, standing))
        return MemberStanding(member_id, before)

    def _own(self, member_id: str, partitions: OwnedPartitions) -> None:
        for topic_id, parts in partitions.items():
            owners = self._owners.setdefault(topic_id, {})
            for partition in parts:
                owners[partition] = member_id

    def _release(self, member_id: str, partitions: OwnedPartitions) -> None:
        for topic_id, parts in partitions.items():
            owners = self._owners.get(topic_id)
            if owners is None:
                continue
            for partition in parts:
                if owners.get(partition) == member_id:
                    del owners[partition]
            if not owners:
                del self._owners[topic_id]

    def _set_regex(self, change: RegexTopics) -> Change:
        before = self.regexes.pop(change.regex, None)
        if change.resolved is not None:
            self.regexes[change.regex] = change.resolved
        return RegexTopics(change.regex, before)

    def _put(self, member: Member) -> None:
        self.members[member.member_id] = member
        if self._behind is not None:
            if member.is_reconciled_to(self.target_epoch):
                self._behind.discard(member.member_id)
            else:
                self._behind.add(member.member_id)


def _add(counter: Counter[str], key: str, by: int) -> None:
    left = counter[key] + by
    if left:
        counter[key] = left
    else:
        del counter[key]


def waits_for_release(group: ConsumerGroup, member: Member) -> bool:
    """Return whether a partition of the member's target still belongs to another member."""
    if member.standing.state is not MemberState.UNRELEASED_PARTITIONS:
        return False
    assigned = member.standing.assigned
    return any(
        partition not in assigned.get(topic_id, {})
        and group.owner_epoch(topic_id, partition) != NOT_OWNED
        for topic_id, parts in group.target.get(member.member_id, NOTHING).items()
        for partition in parts
    )
