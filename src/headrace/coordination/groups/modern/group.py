"""A modern group: the epochs, members and target that every kind of it has.

`apply` is the one way anything of it changes: replayed or decided, a change does the same.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Generic, TypeVar

from headrace.coordination.groups.modern.changes import GroupEpoch, MemberTarget, TargetEpoch
from headrace.coordination.groups.modern.timers import Timers
from headrace.coordination.runtime.journal import KeyValue

INITIAL_EPOCH = 1
"""The group epoch and the target epoch of a group that nobody has joined yet, as in Kafka 4.3
(ModernGroup): whoever joins while the first target is being made is in an epoch, too."""

P = TypeVar("P")
C = TypeVar("C")
"""The changes only this kind of group knows."""


class ModernGroup(ABC, Generic[P, C]):
    """One group. `apply` changes it; everything else asks."""

    kind: ClassVar[str]
    """What its settings begin with: `consumer.session.timeout.ms`."""
    members: Mapping[str, Any]

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = INITIAL_EPOCH
        self.metadata_hash = 0
        self.target_epoch = INITIAL_EPOCH
        """The epoch the present target was made for; the initial one: there is none."""
        self.target_timestamp_ms = 0
        self.target: dict[str, P] = {}
        # What is not in the log: when things happen by themselves, and what was seen last.
        self.timers = Timers()
        self.is_assigning = False
        """An assignor works on the group's target, on a thread."""
        self.image_structure = -1
        """The picture of the cluster the metadata hash was last compared with."""

    @abstractmethod
    def apply(
        self, change: C | GroupEpoch | TargetEpoch | MemberTarget[P]
    ) -> C | GroupEpoch | TargetEpoch | MemberTarget[P]:
        """Let `change` be so. Returns the change that takes it back."""

    @abstractmethod
    def record(self, change: C | GroupEpoch | TargetEpoch | MemberTarget[P]) -> KeyValue:
        """Return the record of `__consumer_offsets` that says `change` of this group."""

    @abstractmethod
    def tombstones(self) -> Iterable[C | GroupEpoch | TargetEpoch | MemberTarget[P]]:
        """Yield the changes that delete every record of the group; its epoch's last."""

    @abstractmethod
    def subscribed_topics(self) -> set[str]:
        """Return all topics any member subscribes to."""

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
