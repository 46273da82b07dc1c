"""Requests to the group coordinator and its responses, independent of wire versions."""

from dataclasses import dataclass
from typing import NamedTuple

from headrace.model.errors import ErrorCode

UNKNOWN_MEMBER = ""
"""The member id of a member that has not received one yet."""
NO_GENERATION = -1


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """A JoinGroup request: a member wants to be in the group's next generation."""

    group_id: str
    member_id: str
    instance_id: str | None
    """The group.instance.id of a static member (KIP-345); None for a dynamic one."""
    client_id: str
    client_host: str
    """The client's address as Kafka writes it, with a leading slash."""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    """Name and subscription of each assignor that the member supports, preferred first."""
    needs_member_id: bool = True
    """JoinGroup v4+: a new dynamic member gets an id first, and joins by a second request
    (KIP-394)."""
    skips_assignment: bool = True
    """JoinGroup v9+: a returning static leader may be told to skip the assignment (KIP-814)."""
    reason: str = ""


class JoinedMember(NamedTuple):
    """A member as the response to the group leader's JoinGroup lists it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinAnswer(NamedTuple):
    """A response to JoinGroup; `members` is filled for the group leader only."""

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
    """A SyncGroup request: a member asks for its assignment; the leader sends all assignments."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()
    """Member id and encoded assignment of each member; sent by the leader only."""


class SyncAnswer(NamedTuple):
    error: ErrorCode
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol_name: str | None = None


class Leaver(NamedTuple):
    """A member to remove from the group: by id, or by instance id with an empty member id."""

    member_id: str
    instance_id: str | None = None
    reason: str | None = None


class Left(NamedTuple):
    member_id: str
    instance_id: str | None
    error: ErrorCode


class OffsetToCommit(NamedTuple):
    """An offset to commit for one partition, whose topic exists."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """An OffsetCommit of a member, or of a consumer with manual assignment (generation -1)."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    offsets: tuple[OffsetToCommit, ...] | list[OffsetToCommit]
    retention_ms: int = -1
    """Retention in ms, of OffsetCommit v2 to v4; -1: the broker's configured retention."""
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
