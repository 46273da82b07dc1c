"""Members of a consumer group, and every change a group can undergo, as values.

A change is what one record of `__consumer_offsets` says: None in place of a value is its tombstone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import NamedTuple

from headrace.coordination.groups.assignors.spec import Partitions
from headrace.coordination.groups.modern.changes import GroupEpoch, MemberTarget, TargetEpoch

OwnedPartitions = Mapping[bytes, Mapping[int, int]]
"""Topic id to partition to the epoch it was assigned in (KIP-1251). Treat as immutable."""

LEAVE_EPOCH = -1
"""The epoch of a heartbeat that leaves the group; of a member without an assignment too."""
LEAVE_STATIC_EPOCH = -2
"""The epoch of a static member that is away and will be back."""
JOIN_EPOCH = 0


class MemberState(IntEnum):
    """Where a member is on its way to its target; numbered as in its record."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """It is to give partitions up, and has not said yet that it has."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that another member has not given up yet."""
    UNKNOWN = 127


class ConsumerGroupState(Enum):
    """Values are the protocol's own names."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ClassicPart(NamedTuple):
    """What a member that speaks the classic protocol said when it joined."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Subscription:
    """Who a member is and what it wants (record type 5)."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str = ""
    """Empty: none."""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicPart | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """What a member has (record type 8)."""

    epoch: int = JOIN_EPOCH
    previous_epoch: int = JOIN_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: OwnedPartitions = field(default_factory=dict)
    pending: OwnedPartitions = field(default_factory=dict)
    """To be given up by the member."""


NEW = Standing(JOIN_EPOCH, -1)
"""Of a member that was let in just now."""
UNASSIGNED = Standing(LEAVE_EPOCH, LEAVE_EPOCH)
"""Of a member whose record of type 8 was deleted."""


@dataclass(frozen=True, slots=True)
class Member:
    """One member; replaced as a whole when anything about it changes."""

    member_id: str
    subscription: Subscription
    standing: Standing

    @property
    def is_classic(self) -> bool:
        """Whether it speaks the classic protocol."""
        return self.subscription.classic is not None

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Tell whether it has all it is to have in `target_epoch`, and nothing else."""
        standing = self.standing
        return standing.state is MemberState.STABLE and standing.epoch == target_epoch


class Resolved(NamedTuple):
    """The topics a regular expression stands for (record type 16)."""

    topics: frozenset[str]
    version: int
    """Of the picture of the cluster it was matched against."""
    timestamp_ms: int


# --- changes -----------------------------------------------------------------------------------


class LegacyTopics(NamedTuple):
    """Type 4, which Kafka wrote before 4.1: only whether there is one."""

    present: bool


class MemberSubscription(NamedTuple):
    """Type 5."""

    member_id: str
    subscription: Subscription | None


class MemberStanding(NamedTuple):
    """Type 8."""

    member_id: str
    standing: Standing | None


class RegexTopics(NamedTuple):
    """Type 16."""

    regex: str
    resolved: Resolved | None


OwnChange = LegacyTopics | MemberSubscription | MemberStanding | RegexTopics
Change = OwnChange | GroupEpoch | TargetEpoch | MemberTarget[Partitions]
