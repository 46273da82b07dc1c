"""What an assignor is asked, and what it answers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

Partitions = Mapping[bytes, frozenset[int]]
"""Topic id to partitions; topics without any are left out. Treat as immutable."""
Assignment = dict[str, Partitions]
"""Member id to what the member is to read; every member of the question is there."""


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """One member of the group."""

    topics: frozenset[bytes]
    """What it subscribes to: topics that exist."""
    present: Partitions
    """What it was to read until now."""
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """The question: who is there, and how many partitions each of their topics has."""

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
    """Return what the member may keep of `topic`, in order.

    These are partitions that exist and nobody else kept.
    """
    return sorted(index for index in spec.present[topic] if index < count and index in free)
