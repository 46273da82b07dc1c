"""Members of a consumer group, and each possible change of a group, as values.

A change is the content of one record in `__consumer_offsets`; None in place of a value is its
tombstone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import NamedTuple

from headrace.coordination.groups.assignors.spec import Partitions
from headrace.coordination.groups.modern.changes import GroupEpoch, MemberTarget, TargetEpoch

OwnedPartitions = Mapping[bytes, Mapping[int, int]]
"""Partitions by topic id, each with the epoch of its assignment (KIP-1251). Immutable by
convention."""

LEAVE_EPOCH = -1
"""Heartbeat epoch of a member that leaves; also the epoch of a member without an assignment."""
LEAVE_STATIC_EPOCH = -2
"""Epoch of a static member that has left for a while."""
JOIN_EPOCH = 0


class MemberState(IntEnum):
    """A member's state on the way to its target assignment; the numbers are those of its record."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """The member has to revoke partitions and has not confirmed that yet."""
    UNRELEASED_PARTITIONS = 2
    """The member waits for partitions that another member has not revoked yet."""
    UNKNOWN = 127


class ConsumerGroupState(Enum):
    """A consumer group's state; values are the protocol's names."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ClassicPart(NamedTuple):
    """Session timeout and protocols from the JoinGroup of a member of the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Subscription:
    """A member's properties and subscription (record type 5)."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str = ""
    """Regular expression for topics; empty if the member has none."""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicPart | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """A member's current assignment and epoch (record type 8)."""

    epoch: int = JOIN_EPOCH
    previous_epoch: int = JOIN_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: OwnedPartitions = field(default_factory=dict)
    pending: OwnedPartitions = field(default_factory=dict)
    """Partitions that the member has to revoke."""


NEW = Standing(JOIN_EPOCH, -1)
"""The initial state of a member that has just joined."""
UNASSIGNED = Standing(LEAVE_EPOCH, LEAVE_EPOCH)
"""The state of a member whose current-assignment record was deleted."""


@dataclass(frozen=True, slots=True)
class Member:
    """A group member; immutable, replaced as a whole at each change."""

    member_id: str
    subscription: Subscription
    standing: Standing

    @property
    def is_classic(self) -> bool:
        """Whether the member uses the classic protocol."""
        return self.subscription.classic is not None

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Return whether the member has exactly its target assignment of epoch `target_epoch`."""
        standing = self.standing
        return standing.state is MemberState.STABLE and standing.epoch == target_epoch


class Resolved(NamedTuple):
    """The topics that match a regular expression (record type 16)."""

    topics: frozenset[str]
    version: int
    """Version of the metadata image that was matched."""
    timestamp_ms: int


# --- changes -----------------------------------------------------------------------------------


class LegacyTopics(NamedTuple):
    """Record type 4, which Kafka wrote before 4.1: only whether it exists."""

    present: bool


class MemberSubscription(NamedTuple):
    """Change of a member's subscription (record type 5)."""

    member_id: str
    subscription: Subscription | None


class MemberStanding(NamedTuple):
    """Change of a member's current assignment (record type 8)."""

    member_id: str
    standing: Standing | None


class RegexTopics(NamedTuple):
    """Change of the topics that match a regular expression (record type 16)."""

    regex: str
    resolved: Resolved | None


OwnChange = LegacyTopics | MemberSubscription | MemberStanding | RegexTopics
Change = OwnChange | GroupEpoch | TargetEpoch | MemberTarget[Partitions]
