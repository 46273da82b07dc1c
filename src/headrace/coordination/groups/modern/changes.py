"""Changes that a modern group of any kind undergoes, as values.

A change is what one record of `__consumer_offsets` says: None in place of a value is its tombstone.
"""

from typing import Generic, NamedTuple, TypeVar

P = TypeVar("P")
"""The partitions of one member, as its kind of group has them."""


class GroupEpoch(NamedTuple):
    """A tombstone (epoch None) ends the group."""

    epoch: int | None
    metadata_hash: int = 0


class TargetEpoch(NamedTuple):
    """The group epoch the target was made for, and when."""

    epoch: int | None
    timestamp_ms: int = 0


class MemberTarget(NamedTuple, Generic[P]):
    """What a member is to have."""

    member_id: str
    partitions: P | None
