"""A share group: who is in it, what each reads, and of which partitions it keeps state."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.coordination.groups.background_assigning import INITIAL_EPOCH
from headrace.coordination.groups.share.assignor import Part
from headrace.coordination.runtime.deadlines import Deadline
from headrace.wire.kafka.coordinator_records.share_groups import Partitions, TopicState

STABLE_MEMBER = 0
"""A member's state in its record: share groups' members are never anything else."""


@dataclass(slots=True)
class ShareMember:
    """A member; `assigned` is what it was told last."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    """Sorted."""
    epoch: int = 0
    previous_epoch: int = 0
    assigned: frozenset[Part] = frozenset()
    session: Deadline | None = None


@dataclass(slots=True)
class ShareGroup:
    """What the records of its life add up to."""

    group_id: str
    epoch: int = INITIAL_EPOCH
    metadata_hash: int = 0
    target_epoch: int = INITIAL_EPOCH
    target_at_ms: int = 0
    """When the targets were made last, by the wall's clock."""
    members: dict[str, ShareMember] = field(default_factory=dict)
    target: dict[str, frozenset[Part]] = field(default_factory=dict)
    initialized: dict[bytes, TopicState] = field(default_factory=dict)
    """Topics of which state is kept, and of which of their partitions."""
    image_structure: int = -1
    """The structure of the cluster the metadata hash was last compared with."""
    busy: bool = False
    """State is being made; whoever else changes the group waits for that."""
    is_assigning: bool = False
    """An assignor works on the group's targets, on a thread."""
    assigning: Deadline | None = None
    """When the targets of the present epoch are made, where that is still to come."""

    def stop_assigning(self) -> None:
        """No targets are made by themselves any more."""
        if self.assigning is not None:
            self.assigning.cancel()
            self.assigning = None

    @property
    def state(self) -> str:
        """As clients are told."""
        return "Stable" if self.members else "Empty"

    def subscribed(self) -> set[str]:
        """All topics any member subscribes to."""
        return {topic for member in self.members.values() for topic in member.topics}

    def with_state(self, topic_id: bytes) -> tuple[int, ...]:
        """The partitions of a topic of which state is kept."""
        topic = self.initialized.get(topic_id)
        return () if topic is None else topic.partitions

    def parts(self) -> list[tuple[str, Part]]:
        """Every partition of which state is kept, with its topic's name."""
        return [
            (topic.name, (topic_id, index))
            for topic_id, topic in self.initialized.items()
            for index in topic.partitions
        ]


def by_topic(parts: frozenset[Part]) -> dict[bytes, tuple[int, ...]]:
    """Partitions as records and answers have them."""
    found: dict[bytes, list[int]] = {}
    for topic_id, index in sorted(parts):
        found.setdefault(topic_id, []).append(index)
    return {topic_id: tuple(indexes) for topic_id, indexes in found.items()}


def as_parts(partitions: Partitions) -> frozenset[Part]:
    """The other way round."""
    return frozenset(
        (topic_id, index) for topic_id, indexes in partitions.items() for index in indexes
    )


def with_parts(
    topics: Mapping[bytes, TopicState], name: str, topic_id: bytes, indexes: list[int]
) -> dict[bytes, TopicState]:
    """`topics` with more partitions of one topic."""
    known = topics.get(topic_id, TopicState(name))
    merged = tuple(sorted({*known.partitions, *indexes}))
    return {**topics, topic_id: TopicState(name, merged)}
