"""Requests to a group coordinator and its answers, free of any version of the wire."""

from dataclasses import dataclass
from typing import NamedTuple

from headrace.model.errors import ErrorCode

UNKNOWN_MEMBER = ""
"""The member id of who has none yet."""
NO_GENERATION = -1


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """One member asks to be in the group's next generation."""

    group_id: str
    member_id: str
    instance_id: str | None
    """group.instance.id of a static member (KIP-345)."""
    client_id: str
    client_host: str
    """As Kafka writes it: a slash and the address."""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    """(name, metadata) of each assignor the member can use, the one it likes most first."""
    needs_member_id: bool = True
    """JoinGroup v4+: a new dynamic member is given an id first and counted on its second call."""
    skips_assignment: bool = True
    """JoinGroup v9+: a returning static leader is told not to assign anew (KIP-814)."""
    reason: str = ""


class JoinedMember(NamedTuple):
    """What the leader learns of a member."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinAnswer(NamedTuple):
    """`members` is filled for the leader only."""

    error: ErrorCode
    member_id: str = UNKNOWN_MEMBER
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """One member asks what it is to read; the leader says what everybody is."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()
    """(member id, assignment), from the leader."""


class SyncAnswer(NamedTuple):
    error: ErrorCode
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol_name: str | None = None


class Leaver(NamedTuple):
    """A member to be taken out: by id, or by instance id with an empty member id."""

    member_id: str
    instance_id: str | None = None
    reason: str | None = None


class Left(NamedTuple):
    member_id: str
    instance_id: str | None
    error: ErrorCode


class OffsetToCommit(NamedTuple):
    """One partition's offset. The topic is known to exist."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """Offsets a member, or a consumer without membership (generation -1), wants kept."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    offsets: tuple[OffsetToCommit, ...] | list[OffsetToCommit]
    retention_ms: int = -1
    """Of OffsetCommit v2 to v4; -1: as the broker is configured."""
    version: int = 9


class DescribedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class DescribedGroup(NamedTuple):
    group_id: str
    error: ErrorCode
    error_message: str | None = None
    state: str = ""
    protocol_type: str = ""
    protocol_name: str = ""
    members: tuple[DescribedMember, ...] = ()


class ListedGroup(NamedTuple):
    group_id: str
    protocol_type: str
    state: str
    group_type: str = "classic"
