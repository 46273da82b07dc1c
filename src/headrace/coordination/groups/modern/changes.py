"""Changes of a modern group of any kind, as values.

A change is the content of one record in `__consumer_offsets`; None in place of a value is its
tombstone.
"""

from typing import Generic, NamedTuple, TypeVar

P = TypeVar("P")
"""The type of one member's partitions, which differs by kind of group."""


class GroupEpoch(NamedTuple):
    """Change of the group epoch; its tombstone (epoch None) deletes the group."""

    epoch: int | None
    metadata_hash: int = 0


class TargetEpoch(NamedTuple):
    """Change of the target epoch: the group epoch of the target assignment, and its time in ms."""

    epoch: int | None
    timestamp_ms: int = 0


class MemberTarget(NamedTuple, Generic[P]):
    """Change of a member's target assignment."""

    member_id: str
    partitions: P | None
