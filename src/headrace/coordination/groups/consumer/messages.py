"""ConsumerGroupHeartbeat and ConsumerGroupDescribe, free of any version of the wire."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from headrace.coordination.groups.assignors.spec import Partitions
from headrace.model.errors import ErrorCode


class Permissions(NamedTuple):
    """What a member may see of topics, where not everybody may see all."""

    version: int
    """Grows when anybody's may have changed."""
    may_see: Callable[[str], bool]
    """Whether a topic may be described to it."""


@dataclass(frozen=True, slots=True)
class HeartbeatRequest:
    """What a member says; None (or -1) where nothing changed since it last said it."""

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
    """v1+: clients make their ids themselves."""
    permissions: Permissions | None = None
    """What regular expressions may stand for; None: everybody may see every topic."""

    @property
    def is_full(self) -> bool:
        """Whether it says everything, and so is to be told everything."""
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
