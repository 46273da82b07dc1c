"""Members of a share group, and the changes that only share groups have, as values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from headrace.coordination.groups.modern.changes import GroupEpoch, MemberTarget, TargetEpoch
from headrace.coordination.groups.share.assignor import Part

JOIN_EPOCH = 0
LEAVE_EPOCH = -1


@dataclass(frozen=True, slots=True)
class TopicState:
    """The partitions of one topic that have share state."""

    name: str
    partitions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Subscription:
    """A member's properties and subscription (record type 10)."""

    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    """Subscribed topics, sorted."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A member's epoch and current assignment (record type 14)."""

    epoch: int = JOIN_EPOCH
    previous_epoch: int = JOIN_EPOCH
    assigned: frozenset[Part] = frozenset()


NOBODY = Subscription()
NEW = Standing()


@dataclass(frozen=True, slots=True)
class ShareMember:
    """A member of a share group; immutable, replaced as a whole at each change."""

    member_id: str
    subscription: Subscription
    standing: Standing


class MemberSubscription(NamedTuple):
    """Change of a member's subscription (record type 10)."""

    member_id: str
    subscription: Subscription | None


class MemberStanding(NamedTuple):
    """Change of a member's current assignment (record type 14)."""

    member_id: str
    standing: Standing | None


class StatePartitions(NamedTuple):
    """Change of the partitions that have share state (record type 15)."""

    topics: Mapping[bytes, TopicState] | None


Assigned = frozenset[Part]
OwnChange = MemberSubscription | MemberStanding | StatePartitions
Change = OwnChange | GroupEpoch | TargetEpoch | MemberTarget[Assigned]


def by_topic(parts: frozenset[Part]) -> dict[bytes, tuple[int, ...]]:
    """Group partitions by topic id, as records and responses encode them."""
    found: dict[bytes, list[int]] = {}
    for topic_id, index in sorted(parts):
        found.setdefault(topic_id, []).append(index)
    return {topic_id: tuple(indexes) for topic_id, indexes in found.items()}
