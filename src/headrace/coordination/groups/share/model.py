"""Members of a share group, and every change only a share group can undergo, as values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from headrace.coordination.groups.modern.changes import GroupEpoch, MemberTarget, TargetEpoch
from headrace.coordination.groups.share.assignor import Part

JOIN_EPOCH = 0
LEAVE_EPOCH = -1


@dataclass(frozen=True, slots=True)
class TopicState:
    """The partitions of one topic of which state is kept."""

    name: str
    partitions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ShareSubscription:
    """Who a member is and what it wants (record type 10)."""

    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    """Sorted."""


@dataclass(frozen=True, slots=True)
class ShareStanding:
    """What a member was told last (record type 14)."""

    epoch: int = JOIN_EPOCH
    previous_epoch: int = JOIN_EPOCH
    assigned: frozenset[Part] = frozenset()


NOBODY = ShareSubscription()
NEW = ShareStanding()


@dataclass(frozen=True, slots=True)
class ShareMember:
    """One member; replaced as a whole when anything about it changes."""

    member_id: str
    subscription: ShareSubscription
    standing: ShareStanding


class ShareMemberSubscription(NamedTuple):
    """Type 10."""

    member_id: str
    subscription: ShareSubscription | None


class ShareMemberStanding(NamedTuple):
    """Type 14."""

    member_id: str
    standing: ShareStanding | None


class StatePartitions(NamedTuple):
    """Type 15: of which partitions of which topics state is kept."""

    topics: Mapping[bytes, TopicState] | None


Assigned = frozenset[Part]
OwnChange = ShareMemberSubscription | ShareMemberStanding | StatePartitions
Change = OwnChange | GroupEpoch | TargetEpoch | MemberTarget[Assigned]


def by_topic(parts: frozenset[Part]) -> dict[bytes, tuple[int, ...]]:
    """Return the partitions as records and answers have them."""
    found: dict[bytes, list[int]] = {}
    for topic_id, index in sorted(parts):
        found.setdefault(topic_id, []).append(index)
    return {topic_id: tuple(indexes) for topic_id, indexes in found.items()}
