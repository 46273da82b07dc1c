"""A modern group: the epochs, members and target assignment that every kind has.

`apply` is the only way to change it, for replayed and for new changes alike.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Generic, TypeVar

from headrace.coordination.groups.modern.changes import GroupEpoch, MemberTarget, TargetEpoch
from headrace.coordination.groups.modern.timers import Timers
from headrace.shards.journal import KeyValue

INITIAL_EPOCH = 1
"""Group epoch and target epoch of a new group, as in Kafka 4.3's ModernGroup.

It is not 0, so that members which join before the first target exists already have an epoch.
"""

P = TypeVar("P")
C = TypeVar("C")
"""The type of changes that only one kind of group has."""


class ModernGroup(ABC, Generic[P, C]):
    """A group whose coordinator computes the assignment. Only `apply` changes it."""

    kind: ClassVar[str]
    """Prefix of the kind's settings: `consumer` in `consumer.session.timeout.ms`."""
    members: Mapping[str, Any]

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = INITIAL_EPOCH
        self.metadata_hash = 0
        self.target_epoch = INITIAL_EPOCH
        """The group epoch of the current target assignment; INITIAL_EPOCH: there is no target
        yet."""
        self.target_timestamp_ms = 0
        self.target: dict[str, P] = {}
        # Not stored in the log: timers, and the metadata that was last compared.
        self.timers = Timers()
        self.is_assigning = False
        """Whether a thread is computing the target assignment."""
        self.image_structure = -1
        """Structure version of the metadata image when the metadata hash was last compared; -1:
        never."""

    @abstractmethod
    def apply(
        self, change: C | GroupEpoch | TargetEpoch | MemberTarget[P]
    ) -> C | GroupEpoch | TargetEpoch | MemberTarget[P]:
        """Apply `change` and return the change that undoes it."""

    @abstractmethod
    def record(self, change: C | GroupEpoch | TargetEpoch | MemberTarget[P]) -> KeyValue:
        """Encode `change` as a record of `__consumer_offsets`."""

    @abstractmethod
    def tombstones(self) -> Iterable[C | GroupEpoch | TargetEpoch | MemberTarget[P]]:
        """Yield the changes that delete all records of the group, that of its epoch last."""

    @abstractmethod
    def subscribed_topics(self) -> set[str]:
        """Return all topics that any member subscribes to."""

    def _set_epoch(self, change: GroupEpoch) -> GroupEpoch:
        former = GroupEpoch(self.epoch, self.metadata_hash)
        self.epoch = change.epoch or INITIAL_EPOCH
        self.metadata_hash = change.metadata_hash
        return former

    def _set_target_epoch(self, change: TargetEpoch) -> TargetEpoch:
        former = TargetEpoch(self.target_epoch, self.target_timestamp_ms)
        self.target_epoch = change.epoch or INITIAL_EPOCH
        self.target_timestamp_ms = change.timestamp_ms
        return former

    def _set_target(self, change: MemberTarget[P]) -> MemberTarget[P]:
        member_id, after = change
        before = self.target.pop(member_id, None)
        if after is not None:
            self.target[member_id] = after
        return MemberTarget(member_id, before)
