"""ConsumerGroupHeartbeat and ConsumerGroupDescribe, independent of wire versions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from headrace.coordination.groups.assignors.spec import Partitions
from headrace.model.errors import ErrorCode


class Permissions(NamedTuple):
    """A member's permission to describe topics, of a user that ACLs restrict."""

    version: int
    """Version of the ACLs: grows whenever they change."""
    may_see: Callable[[str], bool]
    """Returns whether the user may describe a topic."""


@dataclass(frozen=True, slots=True)
class HeartbeatRequest:
    """A heartbeat request; None (or -1) in a field: unchanged since the member's last request."""

    group_id: str
    member_id: str
    epoch: int
    client_id: str = ""
    client_host: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topics: frozenset[str] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: Partitions | None = None
    needs_member_id: bool = True
    """Whether the coordinator creates the member id (v0); from v1 on clients create it."""
    permissions: Permissions | None = None
    """Which topics a regular expression may match; None: every topic is visible."""

    @property
    def is_full(self) -> bool:
        """Whether the request sets all fields, so that the response must hold the full
        assignment."""
        said = self.topics is not None or self.regex is not None
        return self.rebalance_timeout_ms != -1 and said and self.owned is not None


class DescribedTopic(NamedTuple):
    topic_id: bytes
    name: str
    partitions: tuple[int, ...]


class DescribedConsumer(NamedTuple):
    member_id: str
    instance_id: str | None
    rack_id: str | None
    epoch: int
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    regex: str | None
    assigned: tuple[DescribedTopic, ...]
    target: tuple[DescribedTopic, ...]
    is_classic: bool


class DescribedConsumerGroup(NamedTuple):
    group_id: str
    error: ErrorCode
    error_message: str | None = None
    state: str = ""
    epoch: int = 0
    target_epoch: int = 0
    assignor: str = ""
    members: tuple[DescribedConsumer, ...] = ()
