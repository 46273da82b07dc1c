"""The input and output of an assignor."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

Partitions = Mapping[bytes, frozenset[int]]
"""Partitions by topic id, topics without any left out. Immutable by convention."""
Assignment = dict[str, Partitions]
"""Assigned partitions by member id; every member of the input is present."""


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """A group member as an assignor sees it."""

    topics: frozenset[bytes]
    """Ids of the existing topics that the member subscribes to."""
    present: Partitions
    """The member's previous target assignment."""
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """An assignor's input: the members, and the partition count of each of their topics."""

    members: Mapping[str, MemberSpec]
    partitions: Mapping[bytes, int]

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members subscribe to the same topics."""
        members = iter(self.members.values())
        first = next(members, None)
        return first is None or all(member.topics == first.topics for member in members)


Assignor = Callable[[GroupSpec], Assignment]


def kept(spec: MemberSpec, topic: bytes, count: int, free: set[int]) -> list[int]:
    """Return the partitions of `topic` that the member may keep, sorted: existing and still
    free."""
    return sorted(index for index in spec.present[topic] if index < count and index in free)
