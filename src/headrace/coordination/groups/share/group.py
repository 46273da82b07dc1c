"""A share group: members, assignments, and the partitions for which share state is stored."""

from collections.abc import Iterable, Mapping

from headrace.coordination.groups.modern.changes import GroupEpoch, MemberTarget, TargetEpoch
from headrace.coordination.groups.modern.group import ModernGroup
from headrace.coordination.groups.share import records
from headrace.coordination.groups.share.assignor import Part
from headrace.coordination.groups.share.model import (
    NEW,
    NOBODY,
    Assigned,
    Change,
    OwnChange,
    ShareMember,
    ShareMemberStanding,
    ShareMemberSubscription,
    StatePartitions,
    TopicState,
)
from headrace.shards.journal import KeyValue


class ShareGroup(ModernGroup[Assigned, OwnChange]):
    """A share group (KIP-932), as its records in `__consumer_offsets` add up. Only `apply` changes
    it."""

    kind = "share"

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.members: dict[str, ShareMember] = {}
        self.initialized: Mapping[bytes, TopicState] = {}
        """The partitions with share state, by topic id."""
        self.dropped: set[Part] = set()
        """Initialised partitions whose state was or is being deleted; a member that joins has it
        created again."""
        self.makes_state = False
        """Whether share state is being initialised; other changes of offsets are refused until
        then."""

    @property
    def state(self) -> str:
        """The group's state, as reported to clients."""
        return "Stable" if self.members else "Empty"

    def subscribed_topics(self) -> set[str]:
        return {topic for member in self.members.values() for topic in member.subscription.topics}

    def with_state(self, topic_id: bytes) -> tuple[int, ...]:
        """Return the partitions of a topic that have share state which is not being deleted."""
        topic = self.initialized.get(topic_id)
        if topic is None:
            return ()
        if not self.dropped:
            return topic.partitions
        return tuple(at for at in topic.partitions if (topic_id, at) not in self.dropped)

    def parts(self) -> list[tuple[str, Part]]:
        """Return (topic name, (topic id, partition)) for each partition that has share state."""
        return [
            (topic.name, (topic_id, index))
            for topic_id, topic in self.initialized.items()
            for index in topic.partitions
        ]

    # What changes it

    def apply(self, change: Change) -> Change:
        match change:
            case GroupEpoch():
                return self._set_epoch(change)
            case TargetEpoch():
                return self._set_target_epoch(change)
            case MemberTarget():
                return self._set_target(change)
            case ShareMemberSubscription():
                return self._set_subscription(change)
            case ShareMemberStanding():
                return self._set_standing(change)
            case StatePartitions():
                former, self.initialized = self.initialized, change.topics or {}
                return StatePartitions(former)

    def _set_subscription(self, change: ShareMemberSubscription) -> ShareMemberSubscription:
        member_id, after = change
        member = self.members.get(member_id)
        if after is None:
            self.members.pop(member_id, None)
        else:
            standing = NEW if member is None else member.standing
            self.members[member_id] = ShareMember(member_id, after, standing)
        return ShareMemberSubscription(member_id, None if member is None else member.subscription)

    def _set_standing(
        self, change: ShareMemberStanding
    ) -> ShareMemberStanding | ShareMemberSubscription:
        member_id, after = change
        member = self.members.get(member_id)
        if member is None and after is None:
            return change
        if member is None:
            # Compaction may keep this record ahead of the subscription's.
            self.members[member_id] = ShareMember(member_id, NOBODY, after or NEW)
            return ShareMemberSubscription(member_id, None)
        self.members[member_id] = ShareMember(member_id, member.subscription, after or NEW)
        return ShareMemberStanding(member_id, member.standing)

    def record(self, change: Change) -> KeyValue:
        return records.encode(self.group_id, change)

    def tombstones(self) -> Iterable[Change]:
        for member_id in self.members:
            yield ShareMemberStanding(member_id, None)
            yield MemberTarget(member_id, None)
            yield ShareMemberSubscription(member_id, None)
        yield TargetEpoch(None)
        yield StatePartitions(None)
        yield GroupEpoch(None)


def with_parts(
    topics: Mapping[bytes, TopicState], name: str, topic_id: bytes, indexes: list[int]
) -> dict[bytes, TopicState]:
    """Return `topics` with partitions of one topic added."""
    known = topics.get(topic_id, TopicState(name))
    merged = tuple(sorted({*known.partitions, *indexes}))
    return {**topics, topic_id: TopicState(name, merged)}
